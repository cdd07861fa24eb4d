// Source: where bytes come from, and how to copy, fill and release them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/base/checked.hpp"
#include "assay/base/ref.hpp"
#include "assay/base/result.hpp"

namespace assay {

/// A set of capabilities; the names come from capabilities.def.
class Capabilities {
 public:
  enum Bit : std::uint32_t {
#define ASSAY_CAPABILITY(name, meaning) name##_index,
#include "assay/backing/capabilities.def"
#undef ASSAY_CAPABILITY
    count
  };
#define ASSAY_CAPABILITY(name, meaning) \
  static constexpr std::uint32_t name = std::uint32_t{1} << name##_index;
#include "assay/backing/capabilities.def"
#undef ASSAY_CAPABILITY

  constexpr Capabilities() = default;
  constexpr Capabilities(std::uint32_t bits) noexcept : bits_(bits) {}  // NOLINT(*-explicit-*)
  /// True if every capability of `wanted` is offered.
  [[nodiscard]] constexpr bool has(std::uint32_t wanted) const noexcept {
    return (bits_ & wanted) == wanted;
  }
  [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return bits_; }
  friend constexpr bool operator==(Capabilities, Capabilities) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// The stable name of a capability by its index below Capabilities::count.
[[nodiscard]] const char* capability_name(std::uint32_t index) noexcept;

/// One contiguous range of a source. Passed by value, in registers.
struct Block {
  std::uint64_t address = 0;  ///< host or device address; 0 means "no block"
  std::size_t capacity = 0;   ///< bytes held, at least the size asked for

  [[nodiscard]] explicit operator bool() const noexcept { return address != 0; }
  friend bool operator==(const Block&, const Block&) = default;
};

/// What the bytes of a new block hold.
enum class Init : std::uint8_t { undefined, zero };

/// A stream of a device, or none. An opaque driver handle: nothing here follows it.
struct StreamRef {
  void* handle = nullptr;
  friend bool operator==(const StreamRef&, const StreamRef&) = default;
};

/// What is asked of a backing.
struct Request {
  std::size_t size = 0;        ///< bytes, at least 1
  std::size_t reserve = 0;     ///< bytes of address space to keep for growth in place, or 0
  std::size_t alignment = 16;  ///< of the address: a power of two up to 1 GiB
  Init init = Init::undefined;
  StreamRef stream{};
};

/// What is known when a block goes back: the request that made it (or last resized it).
struct Release {
  Request request;
  bool known_zero = false;  ///< every byte of the capacity reads zero
};

/// What became of a block that went back.
enum class Freed : std::uint8_t {
  now,      ///< its bytes are free for others
  pending,  ///< ordered behind device work; still held
  failed,   ///< the native free failed; the bytes stay lost and stay charged
  refused,  ///< not a live block of this source: nothing was done, and nothing may be booked
};

/// The bytes did not go back, and never will by this call.
[[nodiscard]] constexpr bool did_not_free(Freed freed) noexcept {
  return freed == Freed::failed || freed == Freed::refused;
}

struct SourceInfo {
  const char* id = "";  ///< static text, [a-z0-9_]
  Capabilities capabilities{};
  std::size_t granularity = 1;         ///< capacities are multiples of this, in bytes
  std::size_t natural_alignment = 16;  ///< served without padding
  int device = -1;                     ///< ordinal of the device that it stands for; -1: the host
};

/// Where the bytes of a block come from.
///
/// **Invariants** `info()` never changes. **Threads** as `thread_safe` of the capabilities says;
/// copies and fills of disjoint ranges are always safe side by side.
class Source : public Counted {
 public:
  [[nodiscard]] const SourceInfo& info() const noexcept { return info_; }
  [[nodiscard]] bool can(std::uint32_t capabilities) const noexcept {
    return info_.capabilities.has(capabilities);
  }

  /// Path of the file that it stands for, or "".
  [[nodiscard]] virtual const char* path() const noexcept { return ""; }

  /// Gives the block back. **Pre** it is live and `release.request` is the one that made it.
  Freed release(Block block, const Release& release) noexcept {
    ASSAY_CONTRACT(block.address != 0, "release of no block");
    return do_deallocate(block, release);
  }

  /// Copies `from` to the block's bytes from `offset`. **Errors** out_of_range, native failures.
  Result<void> copy_in(Block block, std::size_t offset, std::span<const std::byte> from) noexcept;
  /// Copies the block's bytes from `offset` to `to`. **Errors** out_of_range, native failures.
  Result<void> copy_out(Block block, std::size_t offset, std::span<std::byte> to) noexcept;
  /// Copies `size` bytes between two blocks, of any two sources; they must not overlap. **Errors**
  /// out_of_range, native failures; source_changed, after the copy, where `verify` says so.
  /// **Cost** one copy; two, through the host, between memories that no host and no common device
  /// reaches. Work on either block's own stream is waited for.
  Result<void> copy_between(Block to, std::size_t to_offset, Source& from_source, Block from,
                            std::size_t from_offset, std::size_t size) noexcept;
  /// Sets bytes; the store survives the optimiser, so this is also what wipes. **Errors**
  /// out_of_range, native failures. **Cost** one pass over `size` bytes.
  Result<void> fill(Block block, std::size_t offset, std::size_t size, std::byte value) noexcept;

  /// Are the block's bytes still those that it was made with? Asked after bytes were handed out
  /// that someone outside can change, such as those of a mapped file. **Errors** source_changed,
  /// io.
  Result<void> verify(Block block) noexcept { return do_verify(block); }

  /// The host's view of a block. **Errors** not_supported without host access.
  Result<std::span<std::byte>> host_bytes(Block block) noexcept;

 protected:
  explicit Source(const SourceInfo& info, Immortal immortal = Immortal::no) noexcept
      : Counted(immortal), info_(info) {}

  /// For a source that learns its facts while it is built; never after.
  void set_info(const SourceInfo& info) noexcept { info_ = info; }

  virtual Result<void> do_verify(Block block) noexcept;

  // The defaults serve every source with host access.
  virtual Result<void> do_copy_in(Block block, std::size_t offset,
                                  std::span<const std::byte> from) noexcept;
  virtual Result<void> do_copy_out(Block block, std::size_t offset,
                                   std::span<std::byte> to) noexcept;
  virtual Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                               std::byte value) noexcept;

 private:
  virtual Freed do_deallocate(Block block, const Release& release) noexcept = 0;
  /// Waits for what is queued on the block's own stream, where a source knows such a thing: asked
  /// of a block's own source before another one, or the host, reads or writes its bytes.
  virtual Result<void> do_settle(Block block) noexcept;
  /// Copies between two addresses that this source's device reaches. **Pre** nothing is under way
  /// on either. **Post** the copy is done.
  virtual Result<void> do_copy_on_device(std::uint64_t to, std::uint64_t from,
                                         std::size_t size) noexcept;

  Result<void> copy_through_host(Block to, std::size_t to_offset, Source& from_source, Block from,
                                 std::size_t from_offset, std::size_t size) noexcept;

  friend class Backing;
  SourceInfo info_;
};

}  // namespace assay
