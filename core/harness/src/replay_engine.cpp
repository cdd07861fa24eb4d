#include "assay/harness/replay_engine.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>

#include "assay/base/system.hpp"
#include "assay/harness/pattern.hpp"
#include "footprint.hpp"
#include "tick_clock.hpp"

namespace assay::harness {
namespace {

enum class Pass : std::uint8_t { verify, whole, each };

/// A zeroed array in mappings of its own, so that the subject's heap never holds our records.
template <class T>
class Mapped {
 public:
  explicit Mapped(std::size_t count) noexcept
      : bytes_(std::max<std::size_t>(count, 1) * sizeof(T)) {
    at_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  ~Mapped() {
    if (*this) ::munmap(at_, bytes_);
  }
  explicit operator bool() const noexcept { return at_ != MAP_FAILED; }
  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(at_); }
  T& operator[](std::size_t index) const noexcept { return data()[index]; }

 private:
  std::size_t bytes_;
  void* at_;
};

/// Runs one piece of work on every thread at once; the threads live as long as it does.
class Crew {
 public:
  explicit Crew(std::uint32_t threads) {
    if (threads == 1) return;  // the caller's own thread does it
    for (std::uint32_t t = 0; t < threads; ++t) threads_.emplace_back([this, t] { work(t); });
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(const std::function<void(std::uint32_t thread)>& job) {
    if (threads_.empty()) return job(0);
    std::unique_lock lock(mutex_);
    job_ = &job;
    busy_ = threads_.size();
    ++round_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void work(std::uint32_t thread) {
    std::uint64_t done = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || round_ != done; });
      if (closing_) return;
      done = round_;
      lock.unlock();
      (*job_)(thread);
      lock.lock();
      if (--busy_ == 0) changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::uint32_t)>* job_ = nullptr;
  std::size_t busy_ = 0;
  std::uint64_t round_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

void* pointer_to(Block block) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(block.address));
}

class Replayer {
 public:
  Replayer(const PlanView& plan, Backing& backing, const ReplayOptions& options)
      : plan_(plan),
        backing_(backing),
        options_(options),
        touch_(backing.can(Capabilities::host_access) ? options.touch : Touch::none),
        blocks_(plan.slots),
        ticks_(plan.steps.size() * options.repeat),
        page_(page_size()) {}

  ReplayRun run() {
    if (!blocks_ || !ticks_) return {.problem = "no memory for the records of this replay"};
    Crew crew(plan_.threads());
    before_ = footprint_now();
    run_.timer_cost_ns = clock_.cost_ns();
    run_.peak.requested_bytes = plan_.peak_requested;
    repetition<Pass::verify>(crew);
    for (std::uint32_t i = 0; i < options_.repeat && run_.problem.empty(); ++i) {
      repetition<Pass::whole>(crew);
      run_.times_s.push_back(static_cast<double>(end_ns_ - start_ns_) * 1e-9);
    }
    for (timed_ = 0; timed_ < options_.repeat && run_.problem.empty(); ++timed_) {
      repetition<Pass::each>(crew);
    }
    run_.failed_allocations = failed_;
    if (run_.problem.empty()) summarise();
    return std::move(run_);
  }

 private:
  /// One repetition: every step, then the leftovers, then nothing may be live.
  template <Pass pass>
  void repetition(Crew& crew) {
    done_ = 0;
    turn_.store(0, std::memory_order_relaxed);
    const bool turns = plan_.threads() > 1;
    crew.run([this, turns](std::uint32_t thread) {
      turns ? walk<pass, true>(thread) : walk<pass, false>(thread);
    });
    if (done_ != plan_.steps.size()) {
      fail(fmt::format("a repetition made {} of {} calls", done_.load(), plan_.steps.size()));
    }
    for (const Leftover& left : plan_.leftovers) {
      const ReplayStep step{.size = left.size,
                            .alignment = left.alignment,
                            .stream = left.stream,
                            .slot = left.slot,
                            .operation = TraceOperation::free,
                            .init = left.init};
      if (blocks_[left.slot]) give_back<pass>(step, nullptr);
    }
    if (const Usage usage = backing_.usage(); usage.live_blocks != 0) {
      fail(fmt::format("{} blocks ({} bytes) are live after a repetition", usage.live_blocks,
                       usage.live_bytes));
    }
  }

  template <Pass pass, bool turns>
  void walk(std::uint32_t thread) {
    const auto mine = plan_.order.subspan(
        plan_.thread_begin[thread], plan_.thread_begin[thread + 1] - plan_.thread_begin[thread]);
    for (const std::uint32_t index : mine) {
      if constexpr (turns) wait_for_turn(index);
      if (index == 0) start_ns_ = monotonic_ns();
      perform<pass>(plan_.steps[index], index);
      if (pass == Pass::verify && index == plan_.peak_step) read_peak();
      if (index + 1 == plan_.steps.size()) end_ns_ = monotonic_ns();
      if constexpr (turns) turn_.store(index + 1, std::memory_order_release);
    }
    done_ += mine.size();
  }

  /// Every step is some thread's next one, so the turn always comes: no deadlock.
  void wait_for_turn(std::uint64_t index) noexcept {
    constexpr unsigned spins_max = 128;
    for (unsigned spins = 0; turn_.load(std::memory_order_acquire) != index; ++spins) {
      if (spins >= spins_max) ::sched_yield();
    }
  }

  template <Pass pass>
  void perform(const ReplayStep& step, std::size_t index) {
    std::uint64_t* const ticks =
        pass == Pass::each ? &ticks_[timed_ * plan_.steps.size() + index] : nullptr;
    if (step.operation == TraceOperation::allocate) return take<pass>(step, ticks);
    if (step.operation == TraceOperation::trim) {
      static_cast<void>(backing_.trim(step.size));  // a backing without caches refuses: fine
      return;
    }
    if (!blocks_[step.slot]) return;  // its allocation failed and was counted
    switch (step.operation) {
      case TraceOperation::free: return give_back<pass>(step, ticks);
      case TraceOperation::resize: return change<pass>(step, ticks);
      case TraceOperation::fill: return write_range(step);
      default: return read_range(step);
    }
  }

  template <Pass pass, class Call>
  auto timed(std::uint64_t* ticks, Call call) {
    if constexpr (pass != Pass::each) {
      return call();
    } else {
      const std::uint64_t before = clock_.now();
      auto result = call();
      const std::uint64_t after = clock_.now();
      if (ticks != nullptr) *ticks = after - before;
      return result;
    }
  }

  template <Pass pass>
  void take(const ReplayStep& step, std::uint64_t* ticks) {
    const Request request = request_of(step, step.size);
    const auto block = timed<pass>(ticks, [&] { return backing_.allocate(request); });
    if (!block) return refused(block.error());
    blocks_[step.slot] = block.value();
    if (pass == Pass::verify) check_block(block.value(), step);
    touch(step, 0);
  }

  template <Pass pass>
  void give_back(const ReplayStep& step, std::uint64_t* ticks) {
    const Block block = std::exchange(blocks_[step.slot], Block{});
    if (pass == Pass::verify) check_touched(block, step, step.size);
    const Request request = request_of(step, step.size);
    const Freed freed = timed<pass>(ticks, [&] { return backing_.deallocate(block, request); });
    if (did_not_free(freed)) fail("a deallocation failed");
  }

  template <Pass pass>
  void change(const ReplayStep& step, std::uint64_t* ticks) {
    if (pass == Pass::verify)
      check_touched(blocks_[step.slot], step, std::min(step.other, step.size));
    const auto block = timed<pass>(ticks, [&] { return resize(step); });
    if (!block) return refused(block.error());
    blocks_[step.slot] = block.value();
    if (pass == Pass::verify) {
      check_block(block.value(), step);
      check_touched(block.value(), step, std::min(step.other, step.size));
    }
    touch(step, step.other);
  }

  /// A backing that cannot resize is asked for a new block, a copy and a free: what its user does.
  Result<Block> resize(const ReplayStep& step) {
    const Block old = blocks_[step.slot];
    const Request from = request_of(step, step.other);
    const Request to = request_of(step, step.size);
    auto resized = backing_.resize(old, from, to, MayMove::yes);
    if (resized || resized.error().code != ErrorCode::not_supported) return resized;
    ASSAY_TRY(const Block fresh, backing_.allocate(to));
    const auto copied = backing_.copy_between(
        fresh, 0, backing_, old, 0, static_cast<std::size_t>(std::min(step.other, step.size)));
    if (!copied) {
      backing_.deallocate(fresh, to);
      return copied.error();
    }
    backing_.deallocate(old, from);
    return fresh;
  }

  [[nodiscard]] static Request request_of(const ReplayStep& step, std::uint64_t size) noexcept {
    return {.size = size,
            .alignment = step.alignment,
            .init = step.init,
            .stream = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(step.stream))}};
  }

  /// Calls `visit(offset)` for each offset that a touch writes below `size`, from `from` on.
  template <class Visit>
  void each_touched(std::uint64_t from, std::uint64_t size, Visit visit) const {
    if (touch_ == Touch::none) return;
    if (from == 0 && size != 0) visit(std::uint64_t{0});
    if (touch_ == Touch::first) return;
    for (std::uint64_t at = std::max(align_up(from, page_), page_); at < size; at += page_)
      visit(at);
  }

  void touch(const ReplayStep& step, std::uint64_t from) const {
    auto* const bytes = static_cast<volatile std::byte*>(pointer_to(blocks_[step.slot]));
    each_touched(from, step.size,
                 [&](std::uint64_t at) { bytes[at] = pattern_byte(step.slot, at); });
  }

  void check_touched(Block block, const ReplayStep& step, std::uint64_t size) {
    const auto* const bytes = static_cast<const volatile std::byte*>(pointer_to(block));
    each_touched(0, size, [&](std::uint64_t at) {
      if (bytes[at] != pattern_byte(step.slot, at)) {
        fail(fmt::format("byte {} of a block of {} bytes changed while it was live", at, size));
      }
    });
  }

  void check_block(Block block, const ReplayStep& step) {
    if (!is_aligned(block.address, step.alignment) || block.capacity < step.size) {
      fail(fmt::format("a block of {} bytes, aligned to {}, was asked for; got {} bytes{}",
                       step.size, step.alignment, block.capacity,
                       is_aligned(block.address, step.alignment) ? "" : ", not aligned"));
    }
  }

  void write_range(const ReplayStep& step) {
    const Block block = blocks_[step.slot];
    if (!backing_.can(Capabilities::host_access)) {
      const auto filled = backing_.fill(block, step.other, step.size, pattern_byte(step.slot, 0));
      if (!filled) fail(describe(filled.error()));
      return;
    }
    fill_pattern({static_cast<std::byte*>(pointer_to(block)) + step.other,
                  static_cast<std::size_t>(step.size)},
                 step.slot, step.other);
  }

  void read_range(const ReplayStep& step) const {
    if (!backing_.can(Capabilities::host_access)) return;
    const auto* const bytes =
        static_cast<const volatile std::byte*>(pointer_to(blocks_[step.slot]));
    for (std::uint64_t at = 0; at < step.size; at += page_) {
      static_cast<void>(bytes[step.other + at]);
    }
  }

  void refused(const Error& error) {
    ++failed_;
    fail(describe(error));
  }

  /// Keeps the first problem. Steps are made one at a time, so nothing races here.
  void fail(std::string problem) {
    if (run_.problem.empty()) run_.problem = std::move(problem);
  }

  void read_peak() {
    const Footprint now = footprint_now();
    const auto growth = [](std::uint64_t to, std::uint64_t from) {
      return to > from ? to - from : 0;
    };
    run_.peak.resident_bytes = growth(now.resident_bytes, before_.resident_bytes);
    run_.peak.reserved_bytes = growth(now.mapped_bytes, before_.mapped_bytes);
    if (options_.figures == ReplayOptions::Figures::usage) {
      const Usage usage = backing_.usage();
      run_.peak.granted_bytes = usage.live_bytes;
      run_.peak.reserved_bytes = usage.reserved_bytes;
    } else if (options_.figures == ReplayOptions::Figures::malloc_family) {
      std::uint64_t granted = 0;
      for (std::uint32_t slot = 0; slot < plan_.slots; ++slot) {
        if (blocks_[slot]) granted += ::malloc_usable_size(pointer_to(blocks_[slot]));
      }
      run_.peak.granted_bytes = granted;
    }
  }

  void summarise() {
    run_.allocate = times_of(TraceOperation::allocate);
    run_.deallocate = times_of(TraceOperation::free);
    run_.resize = times_of(TraceOperation::resize);
  }

  [[nodiscard]] CallTimes times_of(TraceOperation operation) const {
    std::vector<std::uint64_t> ticks;
    for (std::size_t i = 0; i < plan_.steps.size() * options_.repeat; ++i) {
      if (plan_.steps[i % plan_.steps.size()].operation == operation) ticks.push_back(ticks_[i]);
    }
    CallTimes times;
    times.count = ticks.size() / options_.repeat;
    if (ticks.empty()) return times;
    std::ranges::sort(ticks);
    const auto at = [&](std::uint64_t thousandths) {  // nearest rank
      const std::size_t rank = (ticks.size() * thousandths + 999) / 1000;
      return static_cast<double>(ticks[std::max<std::size_t>(rank, 1) - 1]) * clock_.ns_per_tick();
    };
    times.p50_ns = at(500);
    times.p99_ns = at(990);
    times.p999_ns = at(999);
    times.max_ns = at(1000);
    times.below_timer = times.p50_ns < 3 * clock_.cost_ns();
    return times;
  }

  const PlanView plan_;
  Backing& backing_;
  const ReplayOptions options_;
  const Touch touch_;
  const TickClock& clock_ = TickClock::get();
  const Mapped<Block> blocks_;         // of each slot
  const Mapped<std::uint64_t> ticks_;  // of each step of each timed repetition
  const std::size_t page_;
  ReplayRun run_;
  Footprint before_;
  std::uint64_t failed_ = 0;
  std::uint32_t timed_ = 0;  // which timed repetition runs
  std::uint64_t start_ns_ = 0;
  std::uint64_t end_ns_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> turn_{0};
};

}  // namespace

ReplayRun replay(const PlanView& plan, Backing& backing, const ReplayOptions& options) {
  ASSAY_CONTRACT(options.repeat >= 1, "a replay has at least one repetition");
  ASSAY_CONTRACT(!plan.steps.empty(), "a replay needs a step");
  return Replayer(plan, backing, options).run();
}

}  // namespace assay::harness
