#include "assay/harness/replay_plan.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <unordered_map>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "assay/harness/text_cursor.hpp"

namespace assay::harness {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t default_alignment = 16;
constexpr std::size_t digits_max = 9;

std::optional<std::uint64_t> short_number(std::string_view text) noexcept {
  if (text.size() > digits_max) return std::nullopt;
  return parse_number<std::uint64_t>(text);
}

/// "0.125" as 125/1000; "2" as 2/1.
std::optional<Scale> parse_decimal(std::string_view text) noexcept {
  const std::size_t point = text.find('.');
  const auto whole = short_number(text.substr(0, point));
  if (!whole) return std::nullopt;
  if (point == std::string_view::npos) return Scale{*whole, 1};
  const std::string_view digits = text.substr(point + 1);
  const auto fraction = short_number(digits);
  if (!fraction) return std::nullopt;
  Scale scale{*whole, 1};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    scale.numerator *= 10;
    scale.denominator *= 10;
  }
  scale.numerator += *fraction;
  return scale;
}

class Planner {
 public:
  Planner(Scale scale, PlanThreads threads)
      : scale_(scale), one_thread_(threads == PlanThreads::one) {}

  ReplayPlan run(const Trace& trace) {
    plan_.steps.reserve(trace.events.size());
    for (const TraceEvent& event : trace.events) {
      if (event.outcome == ErrorCode::none) take(event);
    }
    for (const auto& [id, live] : live_) {
      if (live.size != 0) {
        plan_.leftovers.push_back({live.size, live.alignment, live.stream, live.slot, live.init});
      }
    }
    std::ranges::sort(plan_.leftovers, {}, &Leftover::slot);
    plan_.slots = slots_;
    group_by_thread();
    return std::move(plan_);
  }

 private:
  struct Live {
    std::uint64_t size = 0;  // scaled; 0: an empty block, which has no slot
    std::uint64_t alignment = 0;
    std::uint64_t stream = 0;
    std::uint32_t slot = 0;
    Init init = Init::undefined;
  };

  void take(const TraceEvent& event) {
    if (event.operation == TraceOperation::trim) {
      emit(event, {.size = scale_.of(event.size), .operation = TraceOperation::trim});
      return;
    }
    if (event.operation == TraceOperation::allocate) {
      Live& live = live_[event.id];
      live = {0, event.alignment != 0 ? event.alignment : default_alignment,
              small_stream(event.stream), 0, event.init};
      resize(event, live);
      return;
    }
    const auto found = live_.find(event.id);
    if (found == live_.end()) return;
    Live& live = found->second;
    if (event.operation == TraceOperation::resize) {
      live.init = event.init;
      resize(event, live);
    } else if (event.operation == TraceOperation::free) {
      if (live.size != 0) release(event, live);
      live_.erase(found);
    } else {
      use_range(event, live);
    }
  }

  /// From the block's size to the event's, either of which may be 0.
  void resize(const TraceEvent& event, Live& live) {
    const std::uint64_t to = scale_.of(event.size);
    if (live.size == 0 && to != 0) {
      live.slot = take_slot();
      live.size = to;
      emit(event, step_for(TraceOperation::allocate, live));
    } else if (live.size != 0 && to == 0) {
      release(event, live);
      live.size = 0;
    } else if (to != 0) {
      ReplayStep step = step_for(TraceOperation::resize, live);
      step.other = live.size;
      step.size = live.size = to;
      emit(event, step);
    }
  }

  void release(const TraceEvent& event, const Live& live) {
    emit(event, step_for(TraceOperation::free, live));
    free_slots_.push_back(live.slot);
  }

  /// A range whose scaled ends lie inside the scaled block.
  void use_range(const TraceEvent& event, const Live& live) {
    const std::uint64_t begin = event.offset == 0 ? 0 : scale_.of(event.offset);
    const std::uint64_t length = scale_.of(event.size);
    if (begin >= live.size || length == 0) return;
    ReplayStep step = step_for(event.operation, live);
    step.other = begin;
    step.size = std::min(length, live.size - begin);
    emit(event, step);
  }

  static ReplayStep step_for(TraceOperation operation, const Live& live) noexcept {
    return {.size = live.size,
            .alignment = live.alignment,
            .stream = live.stream,
            .slot = live.slot,
            .operation = operation,
            .init = live.init};
  }

  void emit(const TraceEvent& event, const ReplayStep& step) {
    if (step.operation == TraceOperation::free) bytes_ -= step.size;
    if (step.operation == TraceOperation::allocate) bytes_ += step.size;
    if (step.operation == TraceOperation::resize) bytes_ = bytes_ - step.other + step.size;
    if (bytes_ > peak_) {
      peak_ = bytes_;
      constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
      plan_.peak_requested = peak_ > most ? most : static_cast<std::uint64_t>(peak_);
      plan_.peak_step = plan_.steps.size();
    }
    plan_.steps.push_back(step);
    const std::uint32_t thread = one_thread_ ? 0 : event.thread;
    threads_.push_back(
        thread_numbers_.try_emplace(thread, static_cast<std::uint32_t>(thread_numbers_.size()))
            .first->second);
  }

  void group_by_thread() {
    plan_.thread_begin.assign(std::max<std::size_t>(thread_numbers_.size(), 1) + 1, 0);
    for (const std::uint32_t thread : threads_) ++plan_.thread_begin[thread + 1];
    for (std::size_t t = 1; t < plan_.thread_begin.size(); ++t) {
      plan_.thread_begin[t] += plan_.thread_begin[t - 1];
    }
    std::vector<std::uint32_t> next = plan_.thread_begin;
    plan_.order.resize(threads_.size());
    for (std::uint32_t i = 0; i < threads_.size(); ++i) plan_.order[next[threads_[i]]++] = i;
  }

  std::uint32_t take_slot() {
    if (free_slots_.empty()) return slots_++;
    const std::uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  std::uint64_t small_stream(std::uint64_t stream) {
    if (stream == 0) return 0;
    return streams_.try_emplace(stream, streams_.size() + 1).first->second;
  }

  Scale scale_;
  bool one_thread_;
  ReplayPlan plan_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::unordered_map<std::uint64_t, std::uint64_t> streams_;
  std::unordered_map<std::uint32_t, std::uint32_t> thread_numbers_;
  std::vector<std::uint32_t> threads_;  // of each step
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t slots_ = 0;
  Wide bytes_ = 0;
  Wide peak_ = 0;
};

/// The stored form: this, then the four arrays one after another. Every array's size is a
/// multiple of its alignment of at most 8 because the 4-byte ones come last.
struct StoredHeader {
  std::uint64_t magic = stored_magic;
  std::uint64_t steps = 0;
  std::uint64_t leftovers = 0;
  std::uint64_t order = 0;
  std::uint64_t thread_begin = 0;
  std::uint64_t slots = 0;
  std::uint64_t peak_step = 0;
  std::uint64_t peak_requested = 0;

  static constexpr std::uint64_t stored_magic = 0x6e616c7079617373;  // "ssayplan"
};

Error plan_error(ErrorCode code, int native) noexcept {
  Error error = Error::make(code, "replay plan", "");
  error.native = native;
  return error;
}

}  // namespace

std::optional<Scale> Scale::parse(std::string_view text) noexcept {
  constexpr std::uint64_t most = 1024;
  const std::size_t slash = text.find('/');
  std::optional<Scale> scale;
  if (slash == std::string_view::npos) {
    scale = parse_decimal(text);
  } else if (const auto above = short_number(text.substr(0, slash)),
             below = short_number(text.substr(slash + 1));
             above && below) {
    scale = Scale{*above, *below};
  }
  if (!scale || scale->numerator == 0 || scale->denominator == 0 ||
      scale->numerator > most * scale->denominator) {
    return std::nullopt;
  }
  return scale;
}

std::uint64_t Scale::of(std::uint64_t size) const noexcept {
  if (size == 0) return 0;
  const Wide scaled = Wide{size} * numerator / denominator;
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (scaled == 0) return 1;
  return scaled > most ? most : static_cast<std::uint64_t>(scaled);
}

ReplayPlan plan_replay(const Trace& trace, Scale scale, PlanThreads threads) {
  ASSAY_CONTRACT(trace.events.size() < std::numeric_limits<std::uint32_t>::max(),
                 "a plan numbers its steps with 32 bits");
  return Planner(scale, threads).run(trace);
}

Result<void> store_plan(const PlanView& plan, int fd) {
  StoredHeader header;
  header.steps = plan.steps.size();
  header.leftovers = plan.leftovers.size();
  header.order = plan.order.size();
  header.thread_begin = plan.thread_begin.size();
  header.slots = plan.slots;
  header.peak_step = plan.peak_step;
  header.peak_requested = plan.peak_requested;
  const std::array<std::span<const std::byte>, 5> parts = {
      std::as_bytes(std::span(&header, 1)), std::as_bytes(plan.steps),
      std::as_bytes(plan.leftovers), std::as_bytes(plan.order), std::as_bytes(plan.thread_begin)};
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const ssize_t done = ::write(fd, part.data(), part.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return plan_error(ErrorCode::io, errno);
      part = part.subspan(static_cast<std::size_t>(done));
    }
  }
  return {};
}

Result<PlanView> map_plan(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return plan_error(ErrorCode::io, errno);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < sizeof(StoredHeader)) return plan_error(ErrorCode::parse, 0);
  void* const at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) return plan_error(ErrorCode::io, errno);
  const auto* const header = static_cast<const StoredHeader*>(at);
  if (header->magic != StoredHeader::stored_magic) return plan_error(ErrorCode::parse, 0);
  PlanView plan;
  const auto* const steps = reinterpret_cast<const ReplayStep*>(header + 1);
  const auto* const leftovers = reinterpret_cast<const Leftover*>(steps + header->steps);
  const auto* const order = reinterpret_cast<const std::uint32_t*>(leftovers + header->leftovers);
  plan.steps = {steps, header->steps};
  plan.leftovers = {leftovers, header->leftovers};
  plan.order = {order, header->order};
  plan.thread_begin = {order + header->order, header->thread_begin};
  plan.slots = static_cast<std::uint32_t>(header->slots);
  plan.peak_step = header->peak_step;
  plan.peak_requested = header->peak_requested;
  return plan;
}

}  // namespace assay::harness
