// device_virtual: device memory that grows in place, from the driver's virtual memory management.
#pragma once

#include <vector>

#include "assay/backing/driver_backing.hpp"

namespace assay {

/// A reservation of addresses a block, with physical memory mapped from its start.
///
///     address                                    + capacity             + reservation
///     | piece | piece | piece, mapped, accessible | addresses only ...... |
///
/// A block never moves while its size stays within its `reserve`: growth maps more pieces, a shrink
/// unmaps the whole pieces beyond the new size. Beyond the reservation a larger one is made, and
/// the same pieces are mapped there: pages move, no byte is copied.
///
/// A piece is at most `Options::piece_max` bytes, one `cuMemCreate`. Its handle is released as soon
/// as it is mapped, so that the mapping alone keeps the memory, nothing is left to leak, and a free
/// is one unmapping; a move, which is rarer, asks for the handles again. One that the driver does
/// not take back stays with its piece and goes with it.
///
/// **Errors** every step of an allocation or a resize may fail, and is then undone as a whole. What
/// cannot be undone is `lost` in the error, and given back with its block, or at the end.
/// **Streams** the driver maps and unmaps for all streams at once. Before anything is unmapped the
/// block's own stream is waited for; work on other streams is the caller's to finish.
/// **Cost** capacities are multiples of the driver's granularity, which is asked (2 MiB is usual).
/// An allocation of one piece: reserve, create, map, release, set access; its free: unmap, free the
/// addresses; growth in place: four calls; a move: three calls a piece more.
class DeviceVirtual final : public DeviceOnlyBacking {
 public:
  struct Options {
    /// Largest piece of physical memory, rounded up to the granularity; what a shrink cannot split.
    std::size_t piece_max = std::size_t{64} << 20;
  };

  /// **Errors** not_supported on a device or driver without virtual memory management,
  /// context_lost, out_of_memory, driver_error.
  [[nodiscard]] static Result<Ref<DeviceVirtual>> make(Ref<cuda::PrimaryContext> context,
                                                       const Options& options) noexcept;
  [[nodiscard]] static Result<Ref<DeviceVirtual>> make(Ref<cuda::PrimaryContext> context) noexcept;
  ~DeviceVirtual() override;

 private:
  struct Piece {
    std::size_t size;
    bool mapped;
    bool shared;                         ///< it is another range's memory, until a move is done
    cuda::abi::AllocationHandle handle;  ///< 0: released
  };
  /// A reservation. The first `ready` pieces are mapped, accessible and the block's; those beyond
  /// are what could not be undone.
  struct Range {
    std::size_t extent = 0;
    std::size_t ready = 0;
    std::size_t lost = 0;  ///< bytes of it that are counted as such
    std::vector<Piece> pieces{};

    [[nodiscard]] std::size_t bytes_of(std::size_t from, std::size_t to) const noexcept;
  };
  using Ranges = std::map<Address, Range>;  ///< by the address of the reservation
  enum class Tries : std::uint8_t { one = 1, two = 2 };

  DeviceVirtual(Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own, std::size_t granularity,
                std::size_t piece_max) noexcept;
  Result<Address> native_allocate(const Request& request, std::size_t size) noexcept override;
  Result<void> native_free(Address base, std::size_t held,
                           cuda::abi::Stream stream) noexcept override;
  [[nodiscard]] std::size_t padding_of(const Request&) const noexcept override { return 0; }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  [[nodiscard]] std::size_t rounded(std::size_t size) const noexcept;
  Range* find(Address base) noexcept;
  static Ranges::node_type make_node(std::size_t pieces) noexcept;
  void enter(Ranges::node_type node) noexcept;
  Ranges::node_type take_out(Address base) noexcept;

  Result<void> may_exist(std::size_t size) noexcept;
  Result<void> reserve(Ranges::node_type& node, const Request& request) noexcept;
  bool free_addresses(Address base, const Range& range) noexcept;
  void keep_for_the_end(Ranges::node_type node) noexcept;
  std::size_t account(Range& range) noexcept;
  Error discard(Ranges::node_type node, Error error, bool quiet) noexcept;

  cuda::abi::AllocationHandle take_back(cuda::abi::AllocationHandle handle) noexcept;
  Result<void> map_piece(Address at, Range& range, std::size_t size,
                         cuda::abi::AllocationHandle handle) noexcept;
  Result<void> create_piece(Address at, Range& range, std::size_t size) noexcept;
  Result<void> map_to(Address base, Range& range, std::size_t size) noexcept;
  Result<void> map_again(Address from, const Range& old, Address to, Range& range) noexcept;
  Result<void> set_access(Address base, Range& range) noexcept;
  Result<void> drop(Address base, Range& range, std::size_t keep, Tries tries) noexcept;

  Result<Block> shrink(Block block, Range& range, const Request& to) noexcept;
  Result<Block> grow(Block block, Range& range, const Request& from, const Request& to) noexcept;
  Result<Block> move(Block block, Range& old, const Request& from, const Request& to) noexcept;
  Result<void> zero_new(Block block, Address target, const Request& from,
                        const Request& to) noexcept;
  Error undo_growth(Address base, Range& range, std::size_t ready, Error error,
                    bool quiet) noexcept;

  const std::size_t granularity_;
  const std::size_t piece_max_;
  ForkSafeMutex ranges_mutex_;
  Ranges ranges_;
  Ranges limbo_;  ///< reservations that could not be given back, without a block
};

}  // namespace assay
