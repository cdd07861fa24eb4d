// fault: makes chosen calls fail, to see what the caller does then.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "assay/backing/backing.hpp"
#include "assay/base/live_count.hpp"

namespace assay {

/// Which calls fail. Calls of one kind are counted from 1; the conditions add up.
struct FaultPlan {
  std::uint64_t nth = 0;    ///< that very call; 0: none
  std::uint64_t every = 0;  ///< every such-and-such call; 0: none
  /// The call that takes the bytes asked for beyond this many, and all later ones.
  std::uint64_t after_bytes = UINT64_MAX;
  std::vector<std::uint64_t> calls{};         ///< these calls
  ErrorCode code = ErrorCode::out_of_memory;  ///< of a failed allocation or resize
};

/// Fails the planned calls before the upstream sees them, and passes the rest on.
///
/// A failed free answers Freed::failed and keeps the block, as a driver that cannot free would.
/// What is kept so goes back to the upstream when this adaptor is destroyed.
///
/// **Threads** as the upstream; which thread meets a planned call is up to them.
class Fault final : public Adaptor {
 public:
  enum class On : std::uint8_t { allocate, resize, deallocate };

  /// Without a plan nothing fails. **Pre** an upstream is given.
  [[nodiscard]] static Ref<Fault> make(Ref<Backing> upstream);
  ~Fault() override;

  /// Replaces the plan of one kind of call and starts to count its calls anew.
  void plan(On on, FaultPlan plan) noexcept;

  /// Calls of this kind since its plan was set, the failed ones included.
  [[nodiscard]] std::uint64_t calls(On on) const noexcept;
  /// Calls of this kind that were made to fail since its plan was set.
  [[nodiscard]] std::uint64_t injected(On on) const noexcept;

 private:
  struct Kind {
    FaultPlan plan;
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;
    std::uint64_t injected = 0;
  };
  struct Withheld;

  explicit Fault(Ref<Backing> upstream) noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  /// Counts a call and tells whether it is to fail, with which code.
  ErrorCode meet(On on, std::uint64_t bytes) noexcept;

  mutable std::mutex mutex_;
  std::array<Kind, 3> kinds_;
  Withheld* withheld_ = nullptr;
  LiveCount live_;
};

}  // namespace assay
