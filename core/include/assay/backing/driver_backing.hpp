// DriverBacking: what the backings over the CUDA driver share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "assay/backing/backing.hpp"
#include "assay/base/fork_safe_mutex.hpp"
#include "assay/cuda/stream.hpp"

namespace assay {

/// Blocks of a CUDA context, one allocation of the driver each (device_virtual: one reservation).
///
///     base                 address, aligned as asked         + capacity
///     | padding, 0 or more | payload ...................... |            one driver allocation
///
/// The base is remembered beside the block, never in it, so that memory out of the host's reach is
/// served too; by the same record a free of what is not live is refused.
///
/// **Lifetime** the context is retained. A free that the driver refuses is Freed::failed: the bytes
/// stay held and counted, and the driver is asked once more when the backing ends. Of a context
/// that is gone, or that answers a sticky error, nothing is asked any more.
/// **Streams** what is asked without a stream is done when the call returns. A block's own stream
/// orders what is done to it here: zeroing and filling of device memory are queued there, host
/// copies and fills wait for it first, and so does the free, unless the driver itself frees in the
/// stream's order; the stream must outlive the block.
/// Work on any other stream is the caller's to finish.
/// A move whose old block cannot be freed is undone: the old block stays live, and the caller gets
/// the error.
/// **Threads** safe from any thread, whatever context is current there.
/// **Cost** a push and a pop of the context, two locks, and the driver's own price (microseconds).
class DriverBacking : public Backing {
 public:
  /// Frees that the driver refused.
  struct Incidents {
    std::uint64_t failed_frees = 0;  ///< ever
    std::uint64_t held_bytes = 0;    ///< now, because of them
  };
  [[nodiscard]] Incidents incidents() const noexcept;
  [[nodiscard]] cuda::PrimaryContext& context() const noexcept { return *context_; }

 protected:
  using Address = cuda::abi::DevicePointer;
  /// The driver function that frees, and its name; none where native_free is overridden.
  struct Free {
    cuda::abi::Status (*call)(const cuda::abi::DriverTable& table, Address base);
    const char* name;
    bool in_order = false;  ///< it frees behind the stream's work: nothing need be waited for
  };

  /// `own` is the stream for what is asked without one; null if the derived class queues nothing.
  DriverBacking(const SourceInfo& info, Free free, Ref<cuda::PrimaryContext> context,
                Ref<cuda::Stream> own) noexcept;
  ~DriverBacking() override;

  [[nodiscard]] const cuda::abi::DriverTable& table() const noexcept { return context_->table(); }
  /// The error of a failed call, or nothing.
  Result<void> check(cuda::abi::Status status, const char* function) noexcept {
    return context_->check(status, function, info().id);
  }

  /// A stream to queue work on, and whether that work must be waited for.
  struct Queue {
    cuda::abi::Stream stream;
    bool wait;
  };
  /// The stream of the block that holds `address`, else the own one. `chosen` wins over both; the
  /// block is then waited for as a whole when it is freed.
  [[nodiscard]] Queue queue_for(Address address, StreamRef chosen = {}) noexcept;
  [[nodiscard]] Queue own_queue() const noexcept { return {own_ ? own_->handle() : nullptr, true}; }
  /// That of a request.
  [[nodiscard]] Queue queue_of(StreamRef stream) const noexcept {
    if (stream.handle == nullptr) return own_queue();
    return {static_cast<cuda::abi::Stream>(stream.handle), false};
  }
  /// Waits for what is queued on the block's stream, if it has one: before the host touches it.
  Result<void> wait_for_block(Address address) noexcept;
  /// Waits for the queue if it must be waited for.
  Result<void> finish(const Queue& queue) noexcept;

  Result<void> wait_for(cuda::abi::Stream stream) noexcept;
  Result<void> wait_for_all() noexcept;

  /// Sets device-reachable bytes by the driver. **Pre** the context is current.
  Result<void> set_bytes(Address address, std::size_t size, std::byte value,
                         const Queue& queue) noexcept;

  Result<void> do_settle(Block block) noexcept override { return wait_for_block(block.address); }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_charge(const Request& request) const noexcept override;
  [[nodiscard]] std::size_t do_held_by(Block block) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  /// No block may be live any more; what still cannot be freed is offered to the driver once more.
  /// The destructor of a class that overrides native_free calls it first; a second call does
  /// nothing.
  void end() noexcept;

  // For a class that resizes by itself.
  [[nodiscard]] bool is_live(Block block) const noexcept;
  /// The block at `from` lies at `to` now, and has that capacity; nothing else is held for it.
  void change(Address from, Block to) noexcept;
  /// Counts bytes that could not be given back.
  void lose(std::size_t held) noexcept { keep({}, held); }
  /// Bytes counted so that came back after all.
  void regain(std::size_t held) noexcept;
  /// Adds what a caller can act on to the driver's own words.
  [[nodiscard]] Error refusal(Error error, const Request& request) noexcept;

  /// Adds to an out of memory what there is: by default what the driver says of the device.
  virtual void add_limits(Error& error) noexcept;

  /// What the driver is asked for beyond the capacity, so that an aligned block lies in it.
  [[nodiscard]] virtual std::size_t padding_of(const Request& request) const noexcept;

 private:
  struct Record {
    Address base = 0;
    std::size_t held = 0;  ///< bytes asked of the driver
    std::size_t capacity = 0;
    StreamRef stream{};
    bool other_streams = false;  ///< work was queued on another stream than that
  };
  using Records = std::map<Address, Record>;  ///< by the block's address

  /// One allocation of `size` bytes. **Pre** the context is current.
  virtual Result<Address> native_allocate(const Request& request, std::size_t size) noexcept = 0;
  /// Zeroes a block that nobody has seen. **Pre** the context is current.
  virtual Result<void> zero_fresh(Address base, Address address, std::size_t size,
                                  const Request& request) noexcept = 0;

  /// Readies a block that nobody has seen: zeroed if the request says so, usable on any stream if
  /// it names none. **Pre** the context is current.
  virtual Result<void> make_ready(Address base, Address address, std::size_t size,
                                  const Request& request) noexcept;
  /// Frees an allocation of `held` bytes, behind the work of `stream` where frees are in order.
  /// **Pre** the context is current.
  virtual Result<void> native_free(Address base, std::size_t held,
                                   cuda::abi::Stream stream) noexcept;

  static Records::node_type make_node() noexcept;
  void enter(Records::node_type node) noexcept;
  Records::node_type take_out(Address address) noexcept;
  void follow(Record& record, StreamRef stream) noexcept;
  Result<void> release_old(Block block) noexcept;
  Result<void> obtain(const Request& request, Address& address, Record& record) noexcept;
  Result<void> obtain_padded(const Request& request, std::size_t padding, Address& address,
                             Record& record) noexcept;
  Result<void> release_native(const Record& record) noexcept;
  Result<void> give_back(const Record& record) noexcept;
  void keep(Records::node_type node, std::size_t held) noexcept;

  Ref<cuda::PrimaryContext> context_;
  Ref<cuda::Stream> own_;
  const Free free_;
  std::atomic<bool> pads_natural_{false};  ///< the natural alignment was once not given
  mutable ForkSafeMutex mutex_;
  Records live_;
  Records withheld_;  ///< their free failed
  std::uint64_t live_bytes_ = 0;
  std::uint64_t live_held_ = 0;  ///< with their padding
  std::uint64_t held_bytes_ = 0;
  std::uint64_t failed_frees_ = 0;
};

/// A DriverBacking whose blocks no host reaches: all bytes go through the driver. A copy waits
/// until it is done, because its host side belongs to the caller; a fill waits only where the block
/// has no stream.
class DeviceOnlyBacking : public DriverBacking {
 protected:
  using DriverBacking::DriverBacking;
  ~DeviceOnlyBacking() override = default;
  Result<void> zero_fresh(Address base, Address address, std::size_t size,
                          const Request& request) noexcept override;
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override;
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override;
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override;
  Result<void> do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                 std::size_t size) noexcept override;
};

/// A DriverBacking whose blocks the host reaches: copies and fills are the host's own, once the
/// block's stream is done.
class HostReachableBacking : public DriverBacking {
 protected:
  using DriverBacking::DriverBacking;
  ~HostReachableBacking() override = default;
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override;
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override;
  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override;
};

}  // namespace assay
