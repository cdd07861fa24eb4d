#include "assay/harness/shrink.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace assay::harness {
namespace {

using Commands = std::vector<Command>;

class Shrinker {
 public:
  Shrinker(Commands commands, const StillFails& still_fails, const ShrinkLimits& limits)
      : best_(std::move(commands)), still_fails_(still_fails), limits_(limits) {}

  Shrunk run(std::uint32_t failing_step) {
    cut_behind(failing_step);
    for (bool smaller = true; smaller && !stopped_;) {
      smaller = remove_chunks();
      smaller = simplify_numbers() || smaller;
    }
    return {std::move(best_), runs_, !stopped_};
  }

 private:
  /// Keeps the candidate if it still fails, cut behind its own failing step.
  bool accept(Commands candidate) {
    if (stopped_ || runs_ >= limits_.runs_max || (limits_.out_of_time && limits_.out_of_time())) {
      stopped_ = true;
      return false;
    }
    ++runs_;
    const auto step = still_fails_(candidate);
    if (!step) return false;
    best_ = std::move(candidate);
    // What follows the failing step did not run before it: no candidate of its own is needed.
    if (*step + 1 < best_.size()) best_.resize(*step + 1);
    return true;
  }

  void cut_behind(std::uint32_t failing_step) {
    if (failing_step + 1 >= best_.size()) return;
    accept(Commands(best_.begin(), best_.begin() + failing_step + 1));
  }

  bool remove_chunks() {
    bool removed = false;
    for (std::size_t chunk = std::max<std::size_t>(best_.size() / 2, 1);; chunk /= 2) {
      // From the back: what made the failure usually stands near it, what is in its way does not.
      for (std::size_t end = best_.size(); end > 0 && !stopped_;) {
        const std::size_t begin = end > chunk ? end - chunk : 0;
        Commands candidate(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(begin));
        candidate.insert(candidate.end(), best_.begin() + static_cast<std::ptrdiff_t>(end),
                         best_.end());
        if (!candidate.empty() && accept(std::move(candidate))) removed = true;
        end = std::min(begin, best_.size());
      }
      if (chunk == 1 || stopped_) return removed;
    }
  }

  bool simplify_numbers() {
    bool simplified = false;
    for (std::size_t i = 0; i < best_.size() && !stopped_; ++i) {
      simplified = try_values(i, &Command::alignment, best_[i].alignment) || simplified;
      simplified = i < best_.size() && best_[i].zero != 0 && try_zero(i) ? true : simplified;
      if (i < best_.size()) simplified = try_values(i, &Command::size, best_[i].size) || simplified;
    }
    return simplified;
  }

  bool try_zero(std::size_t i) {
    Commands candidate = best_;
    candidate[i].zero = 0;
    return accept(std::move(candidate));
  }

  /// Tries 1, then powers of two upward, then one less: the first that fails is kept.
  bool try_values(std::size_t i, std::uint64_t Command::* field, std::uint64_t now) {
    const Operation operation = best_[i].operation;
    const bool used = operation == Operation::allocate ||
                      (operation == Operation::resize && field == &Command::size);
    if (!used) return false;
    for (std::uint64_t value = 1; value < now && value != 0; value *= 4) {
      if (try_value(i, field, value)) return true;
    }
    if (field == &Command::alignment) return now > 1 && try_value(i, field, now / 2);
    const std::uint64_t round = std::bit_floor(now);
    return round != now && try_value(i, field, round);
  }

  bool try_value(std::size_t i, std::uint64_t Command::* field, std::uint64_t value) {
    Commands candidate = best_;
    candidate[i].*field = value;
    return accept(std::move(candidate));
  }

  Commands best_;
  const StillFails& still_fails_;
  const ShrinkLimits& limits_;
  std::size_t runs_ = 0;
  bool stopped_ = false;
};

}  // namespace

Shrunk shrink(std::vector<Command> commands, std::uint32_t failing_step,
              const StillFails& still_fails, const ShrinkLimits& limits) {
  return Shrinker(std::move(commands), still_fails, limits).run(failing_step);
}

}  // namespace assay::harness
