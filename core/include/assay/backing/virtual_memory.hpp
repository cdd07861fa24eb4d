// virtual: mapped address space that grows in place and gives its pages back.
#pragma once

#include "assay/backing/backing.hpp"
#include "assay/base/live_count.hpp"

namespace assay {

/// Anonymous private mappings, one a block; commit is accounting, pages come at first touch.
///
///     address                      + capacity                          + mapping
///     | payload, size rounded to pages | never exposed, reads zero ...... |
///     |<----- counted as live -------->|<-- address space only (reserve) -->|
///
/// A block asked for with a `reserve` never moves while its size stays within it. Beyond it, growth
/// asks mremap: in place where the next addresses are free, otherwise by moving page tables, not
/// bytes. A shrink gives the pages beyond the new capacity back at once.
///
/// **Invariants** bytes between the capacity and the end of the mapping read zero; fresh blocks are
/// zero without a pass over them. **Threads** safe from any thread.
class VirtualMemory final : public Backing {
 public:
  /// Transparent huge pages: leave it to the system's policy, or ask for them (MADV_HUGEPAGE) in
  /// mappings that hold at least one; those are aligned to one.
  enum class HugePages : std::uint8_t { system, advised };

  [[nodiscard]] static Ref<VirtualMemory> make(HugePages huge_pages = HugePages::system);
  ~VirtualMemory() override;

  /// Mappings that the kernel refused to unmap; their bytes stay in `usage().reserved_bytes`.
  [[nodiscard]] std::uint64_t failed_frees() const noexcept;

 private:
  explicit VirtualMemory(HugePages huge_pages) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  [[nodiscard]] std::size_t mapping_size(const Request& request) const noexcept;
  [[nodiscard]] std::size_t placement(const Request& request) const noexcept;
  void* grow_mapping(void* base, const Request& from, const Request& to, MayMove may_move,
                     Error& error) noexcept;
  [[nodiscard]] Error refusal(const char* feature, std::size_t requested, int native) noexcept;

  const std::size_t page_;
  const std::size_t huge_page_;  ///< 0: none asked for
  LiveCount committed_;
  LiveCount mapped_;
  std::atomic<std::uint64_t> failed_frees_{0};
};

}  // namespace assay
