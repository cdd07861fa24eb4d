#include "measure.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>

#include <fmt/format.h>
#include <sys/resource.h>

#include "assay/buffer/access.hpp"

namespace assay::yardstick {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::duration<double, std::nano>;

#ifdef ASSAY_SANITIZED
constexpr bool sanitized = true;  // its shadow memory faults pages in
#else
constexpr bool sanitized = false;
#endif

constexpr std::size_t windows_min = 11;
/// Operations after which a fault that is not theirs (a page that the kernel moved) counts little.
constexpr double operations_per_stray_fault = 1000;
constexpr std::size_t counted_operations_min = 4096;

/// What reading the clock twice adds to a time: the median of many empty ones.
double clock_cost_ns() {
  static const double cost = [] {
    std::vector<double> empty;
    for (int i = 0; i < 2001; ++i) {
      const auto begun = Clock::now();
      empty.push_back(Nanoseconds(Clock::now() - begun).count());
    }
    return spread_of(std::move(empty)).median;
  }();
  return cost;
}

template <class Work>
double timed_ns(Work&& work) {
  const auto begun = Clock::now();
  work();
  const double spent = Nanoseconds(Clock::now() - begun).count();
  return std::max(spent - clock_cost_ns(), 0.0);
}

/// Both sides of a row, call by call or in one go: alike, so that neither has an advantage.
class Bench {
 public:
  Bench(const Row& row, Pair& pair) : row_(row), pair_(pair) {}

  double operation_ns(std::size_t calls) {
    if (!row_.undone) return timed_ns([&] { pair_.operation(calls); });
    double spent = 0;
    for (std::size_t i = 0; i < calls && pair_.trouble().empty(); ++i) {
      spent += timed_ns([&] { pair_.operation(1); });
      pair_.undo();
    }
    return spent;
  }
  double yardstick_ns(std::size_t calls) {
    if (!row_.undone) return timed_ns([&] { pair_.yardstick(calls); });
    double spent = 0;
    for (std::size_t i = 0; i < calls; ++i) spent += timed_ns([&] { pair_.yardstick(1); });
    return spent;
  }

 private:
  const Row& row_;
  Pair& pair_;
};

/// Sums up what the calling thread did between `begin` and `end`.
class Counting {
 public:
  explicit Counting(const Pair& pair) : pair_(pair) {}
  void begin() { before_ = now(); }
  void end(std::size_t operations) {
    const Counters after = now();
    total_.operations += static_cast<double>(operations);
    total_.copied += after.copied - before_.copied;
    total_.page_faults += after.page_faults - before_.page_faults;
    total_.cpu_ns += after.cpu_ns - before_.cpu_ns;
  }
  [[nodiscard]] Counters per_operation() const {
    const double n = total_.operations;
    return {n, total_.copied / n, total_.page_faults / n, total_.cpu_ns / n};
  }

 private:
  [[nodiscard]] Counters now() const {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    const auto ns = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
    };
    return {.copied = static_cast<double>(payload_bytes_copied() + pair_.copied_elsewhere()),
            .page_faults = static_cast<double>(usage.ru_minflt + usage.ru_majflt),
            .cpu_ns = ns(usage.ru_utime) + ns(usage.ru_stime)};
  }

  const Pair& pair_;
  Counters before_;
  Counters total_;
};

/// How often each side is called in a window, and how many windows there are.
struct Shape {
  std::size_t operation_calls = 1;
  std::size_t yardstick_calls = 1;
  std::size_t windows = 1;
};

/// Calls that fill a window, by doubling: also the warm-up of that side. A call that seems long is
/// believed the third time, as one that was interrupted would make every window a single call.
template <class Side>
std::size_t calls_for(std::chrono::nanoseconds window, Side&& side) {
  const double wanted = Nanoseconds(window).count();
  constexpr std::size_t calls_max = std::size_t{1} << 24;
  for (std::size_t calls = 1;; calls *= 2) {
    double spent = side(calls);
    for (int again = 0; again < 2 && spent >= wanted / 4; ++again) {
      spent = std::min(spent, side(calls));
    }
    if (spent < wanted / 4 && calls < calls_max) continue;
    const double needed = wanted * static_cast<double>(calls) / std::max(spent, 1.0);
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(needed)), 1, calls_max);
  }
}

Shape shape_of(const Row& row, const Settings& settings, Bench& bench) {
  if (settings.smoke) {
    bench.operation_ns(1);  // what is faulted in once is not the steady state
    const std::size_t counted = row.no_faults ? counted_operations_min : 1;
    return {(counted + row.items - 1) / row.items, 1, 1};
  }
  Shape shape;
  shape.operation_calls =
      calls_for(settings.window, [&](std::size_t calls) { return bench.operation_ns(calls); });
  shape.yardstick_calls =
      calls_for(settings.window, [&](std::size_t calls) { return bench.yardstick_ns(calls); });
  const auto begun = Clock::now();
  bench.operation_ns(shape.operation_calls);
  bench.yardstick_ns(shape.yardstick_calls);
  const double pair_ns = Nanoseconds(Clock::now() - begun).count();
  const double fitting = Nanoseconds(settings.row_time).count() / std::max(pair_ns, 1.0);
  const std::size_t least = std::min(windows_min, settings.windows);
  shape.windows = static_cast<std::size_t>(
      std::clamp(fitting, static_cast<double>(least), static_cast<double>(settings.windows)));
  return shape;
}

/// One try: every window, the side that begins changing from one to the next.
Samples sample(const Row& row, const Shape& shape, Bench& bench, Counting& counting) {
  Samples samples;
  const std::size_t operations = shape.operation_calls * row.items;
  const std::size_t measures = shape.yardstick_calls * row.items;
  const auto take_operation = [&] {
    counting.begin();
    const double spent = bench.operation_ns(shape.operation_calls);
    counting.end(operations);
    samples.operation_ns.push_back(spent / static_cast<double>(operations));
  };
  const auto take_yardstick = [&] {
    const double spent = bench.yardstick_ns(shape.yardstick_calls);
    samples.yardstick_ns.push_back(spent / static_cast<double>(measures));
  };
  for (std::size_t i = 0; i < shape.windows; ++i) {
    if (i % 2 == 0) take_operation();
    take_yardstick();
    if (i % 2 != 0) take_operation();
  }
  return samples;
}

/// What a counter says against the row, or empty.
std::string violation(const Row& row, const Counters& counters) {
  if (row.copied && counters.copied != static_cast<double>(*row.copied)) {
    return fmt::format("an operation copied {:.6g} payload bytes instead of {}", counters.copied,
                       *row.copied);
  }
  const bool faulted = counters.page_faults * operations_per_stray_fault > 1;
  if (row.no_faults && faulted && !sanitized) {
    return fmt::format("an operation faulted {:.6g} pages in instead of none",
                       counters.page_faults);
  }
  return "";
}

void measure(const Row& row, const Settings& settings, Pair& pair, Outcome& outcome) {
  Bench bench(row, pair);
  Counting counting(pair);
  const Shape shape = shape_of(row, settings, bench);
  outcome.windows = shape.windows;
  std::optional<Comparison> best;
  while (outcome.tries < std::max(settings.tries, 1U)) {
    const Comparison one = compare(sample(row, shape, bench, counting));
    ++outcome.tries;
    if (!pair.trouble().empty()) break;
    if (!best || one.disturbance() < best->disturbance()) best = one;
    if (settings.smoke || judge(one, row.limit) != Verdict::disturbed) break;
  }
  outcome.counters = counting.per_operation();
  outcome.error = !pair.trouble().empty() ? pair.trouble() : violation(row, outcome.counters);
  if (!outcome.error.empty()) return;
  outcome.comparison = *best;
  if (!settings.smoke) outcome.verdict = judge(*best, row.limit);
}

void attempt(const Row& row, const Settings& settings, Outcome& outcome) {
  const auto pair = row.make(row.size);
  outcome.error = pair->verify();
  if (outcome.error.empty()) measure(row, settings, *pair, outcome);
}

}  // namespace

Outcome run_row(const Row& row, const Settings& settings, std::size_t cpus) {
  Outcome outcome;
  if (row.threads > cpus) {
    outcome.skipped =
        fmt::format("{}needs {} CPUs, this process may use {}", skip_prefix, row.threads, cpus);
    return outcome;
  }
  try {
    attempt(row, settings, outcome);
  } catch (const std::exception& exception) {
    outcome.error = exception.what();
  }
  if (!outcome.error.empty()) outcome.error.insert(0, error_prefix);
  return outcome;
}

}  // namespace assay::yardstick
