// Family: one operation, measured for every subject and a range of sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "assay/backing/backing.hpp"

namespace assay::bench {

/// How much to measure: what fits a minute for every subject together, or everything.
enum class Scope : bool { standard, full };

/// What one row is made of, besides the backing.
struct Input {
  std::size_t size_bytes = 0;
  std::uint64_t seed = 0;
};

/// Sizes from `first` by factors of 4 (full: of 2) to `last` (full: to `last_full`), in bytes.
struct SizeRange {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t last_full = 0;
};

/// One operation with its sizes. Made by `family_of<Operation>`.
struct Family {
  std::string_view name;
  std::string_view summary;
  SizeRange sizes;
  /// Changes whenever the work does: rows of different versions are not comparable.
  std::string_view source_version = "1";
  std::uint32_t needs = 0;      ///< capabilities without which a row is skipped
  std::size_t allocations = 0;  ///< blocks allocated and freed by one iteration
  std::size_t live_blocks = 1;  ///< most of them that are live at once
  bool touches = false;         ///< an iteration writes to every page of its blocks
  /// Proves that the work is done: empty, or what is wrong. Leaves nothing allocated.
  std::string (*verify)(Backing& backing, const Input& input) = nullptr;
  /// Times it. A failed allocation makes an error row.
  void (*run)(benchmark::State& state, Backing& backing, const Input& input) = nullptr;
};

/// Every built-in family, in the order of bench/micro/manifest.def.
[[nodiscard]] std::span<const Family* const> families() noexcept;

/// What every message of an error row starts with.
inline constexpr std::string_view error_prefix = "assay: ";
/// What the message of a row starts with that could not be measured here, without being at fault.
inline constexpr std::string_view skip_prefix = "assay: skipped: ";

namespace detail {

/// Allocates `live_blocks` blocks, writes and reads back their contents, frees them: empty, or
/// what is wrong.
std::string check_blocks(Backing& backing, const Input& input, std::size_t live_blocks);

/// One iteration of `once`, counted: empty, or what is wrong.
std::string check_counts(Backing& backing, std::size_t allocations,
                         bool (*once)(Backing&, const Input&, Error&), const Input& input);

/// The counters every row has, after its loop.
class RowCounters {
 public:
  RowCounters();
  void report(benchmark::State& state, const Family& family, const Input& input) const;

 private:
  std::uint64_t faults_before_;
};

}  // namespace detail

/// The family of an operation, a class with `Operation(const Input&)` for what is prepared outside
/// the timed loop, `bool operator()(Backing&, Error&)` for one iteration (false: an allocation
/// failed, and nothing is left allocated) and `static constexpr Family facts`.
template <class Operation>
constexpr Family family_of() {
  Family family = Operation::facts;
  family.verify = [](Backing& backing, const Input& input) -> std::string {
    const auto once = [](Backing& counted, const Input& once_input, Error& error) {
      return Operation(once_input)(counted, error);
    };
    std::string wrong = detail::check_blocks(backing, input, Operation::facts.live_blocks);
    if (!wrong.empty()) return wrong;
    return detail::check_counts(backing, Operation::facts.allocations, once, input);
  };
  family.run = [](benchmark::State& state, Backing& backing, const Input& input) {
    Operation operation(input);
    Backing* hidden = &backing;  // the compiler may not know whose allocate this is
    benchmark::DoNotOptimize(hidden);
    Error error;
    const detail::RowCounters counters;
    for (auto _ : state) {
      if (!operation(*hidden, error)) [[unlikely]] {
        state.SkipWithError((std::string(error_prefix) + describe(error)).c_str());
        break;
      }
    }
    counters.report(state, Operation::facts, input);
  };
  return family;
}

}  // namespace assay::bench
