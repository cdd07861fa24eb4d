// CheckedBacking: stands below a subject and records what the subject does wrong with its upstream.
#pragma once

#include <atomic>
#include <cstddef>

#include "assay/backing/backing.hpp"
#include "assay/harness/shared_case.hpp"

namespace assay::harness {

/// A backing that hands out blocks of an upstream, remembers each with its request, and compares
/// every free and resize with it. It records findings instead of aborting, and refuses past a
/// limit, which is how "out of memory" is made for a subject that has an upstream.
///
/// **Invariants** its records live in a mapping of its own, made once: it never allocates while it
/// serves, so that it also works under a memory limit. A bad free is recorded and not passed on.
/// **Threads** one at a time.
class CheckedBacking final : public Adaptor {
 public:
  /// **Errors** out_of_memory if the table of records cannot be mapped.
  static Result<Ref<CheckedBacking>> make(Ref<Backing> upstream, std::uint64_t limit_bytes);
  ~CheckedBacking() override;

  struct Counts {
    std::uint64_t allocations = 0;  ///< all that succeeded
    std::uint64_t live_blocks = 0;
    std::uint64_t live_bytes = 0;
    std::uint64_t refusals = 0;
    std::uint64_t findings = 0;  ///< all of them; the first finding_limit are kept
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  /// **Pre** index below both counts().findings and finding_limit.
  [[nodiscard]] const Finding& finding(std::size_t index) const noexcept;
  /// Where findings read the step that they belong to, or null.
  void set_step_source(const std::atomic<std::uint32_t>* step) noexcept { step_ = step; }

 private:
  struct Record {
    std::uint64_t address = 0;
    std::uint64_t capacity = 0;
    std::uint64_t size = 0;
    std::uint64_t alignment = 0;
    std::uint64_t reserve = 0;
  };

  CheckedBacking(const SourceInfo& facts, Ref<Backing> upstream, std::uint64_t limit_bytes,
                 Record* records) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  Record* find(std::uint64_t address) noexcept;
  void insert(Block block, const Request& request) noexcept;
  void erase(Record& record) noexcept;
  [[nodiscard]] bool within_limit(std::uint64_t more_bytes) const noexcept;
  /// Compares what the subject says of a block with its record.
  void compare(const Record& record, Block block, const Request& request) noexcept;
  void note(FindingKind kind, std::uint64_t expected, std::uint64_t found) noexcept;

  Record* const records_;
  const std::uint64_t limit_bytes_;
  const std::atomic<std::uint32_t>* step_ = nullptr;
  Counts counts_;
  Finding findings_[finding_limit];
};

}  // namespace assay::harness
