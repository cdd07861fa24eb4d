#include "assay/harness/trace_facts.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "assay/base/contract.hpp"

namespace assay::harness {
namespace {

__extension__ using Wide = unsigned __int128;  // sums of sizes that may each be 2^64 - 1

std::uint64_t saturated(Wide value) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return value > most ? most : static_cast<std::uint64_t>(value);
}

/// Follows a trace event by event and knows what is live.
class Follower {
 public:
  enum class Effect { none, unknown, failed };

  struct Live {
    std::uint64_t size;
    std::uint64_t event;
  };

  Effect follow(const TraceEvent& event, std::uint64_t position) {
    if (event.operation == TraceOperation::trim) return Effect::none;
    if (event.operation == TraceOperation::allocate) {
      if (event.outcome != ErrorCode::none) return Effect::failed;
      live_.insert_or_assign(event.id, Live{event.size, position});
      bytes_ += event.size;
      return Effect::none;
    }
    const auto found = live_.find(event.id);
    if (found == live_.end()) return Effect::unknown;
    if (event.outcome != ErrorCode::none) return Effect::failed;
    if (event.operation == TraceOperation::free) {
      bytes_ -= found->second.size;
      live_.erase(found);
    } else if (event.operation == TraceOperation::resize) {
      bytes_ = bytes_ - found->second.size + event.size;
      found->second.size = event.size;
    }
    return Effect::none;
  }

  [[nodiscard]] Wide bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::unordered_map<std::uint64_t, Live>& live() const noexcept {
    return live_;
  }

 private:
  std::unordered_map<std::uint64_t, Live> live_;
  Wide bytes_ = 0;
};

void count(const TraceEvent& event, Follower::Effect effect, std::uint64_t position,
           TraceFacts& facts) {
  const bool is_free = event.operation == TraceOperation::free;
  const bool sized =
      event.operation == TraceOperation::allocate || event.operation == TraceOperation::resize;
  if (is_free) ++facts.frees;
  if (event.operation == TraceOperation::resize) ++facts.resizes;
  switch (effect) {
    case Follower::Effect::unknown:
      ++(is_free ? facts.unknown_frees : facts.unknown_others);
      if (!facts.first_unknown) facts.first_unknown = position;
      return;
    case Follower::Effect::failed:
      if (sized) ++facts.failed;
      return;
    case Follower::Effect::none:
      if (event.operation == TraceOperation::allocate) ++facts.allocations;
      if (sized && event.size == 0) ++facts.zero_size;
      return;
  }
}

}  // namespace

TraceFacts facts_of(const Trace& trace) {
  TraceFacts facts;
  Follower follower;
  Wide peak = 0;
  std::unordered_set<std::uint64_t> threads;
  std::unordered_set<std::uint64_t> streams;
  for (std::uint64_t i = 0; i < trace.events.size(); ++i) {
    const TraceEvent& event = trace.events[i];
    threads.insert(event.thread);
    streams.insert(event.stream);
    count(event, follower.follow(event, i), i, facts);
    if (follower.bytes() > peak) {
      peak = follower.bytes();
      facts.peak_event = i;
    }
  }
  facts.rows = trace.events.size();
  facts.threads = static_cast<std::uint32_t>(threads.size());
  facts.streams = static_cast<std::uint32_t>(streams.size());
  facts.live_at_end = follower.live().size();
  facts.live_bytes_at_end = saturated(follower.bytes());
  facts.peak_live_bytes = saturated(peak);
  for (const auto& [id, live] : follower.live()) {
    facts.first_leftover = std::min(facts.first_leftover.value_or(live.event), live.event);
  }
  return facts;
}

std::vector<TimelinePoint> timeline_of(const Trace& trace, std::size_t points_max) {
  ASSAY_CONTRACT(points_max >= 4, "a timeline needs room for its ends and its peak");
  std::vector<TimelinePoint> all;
  all.reserve(trace.events.size());
  Follower follower;
  std::size_t peak = 0;
  for (std::uint64_t i = 0; i < trace.events.size(); ++i) {
    follower.follow(trace.events[i], i);
    all.push_back({i, saturated(follower.bytes())});
    if (all.back().live_bytes > all[peak].live_bytes) peak = i;
  }
  if (all.size() <= points_max) return all;
  std::vector<TimelinePoint> thinned;
  const std::size_t step = (all.size() + points_max - 3) / (points_max - 2);
  for (std::size_t i = 0; i < all.size(); i += step) {
    if (peak > i - std::min(i, step) && peak < i) thinned.push_back(all[peak]);
    thinned.push_back(all[i]);
  }
  const bool peak_is_late = thinned.back().event < peak;
  if (peak_is_late) thinned.push_back(all[peak]);
  if (thinned.back().event + 1 < all.size()) thinned.push_back(all.back());
  return thinned;
}

}  // namespace assay::harness
