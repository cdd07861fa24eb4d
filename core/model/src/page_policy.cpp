#include "page_policy.hpp"

#include <bit>
#include <mutex>

#include "arena.hpp"
#include "discards.hpp"
#include "immortal.hpp"
#include "mutants.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

namespace {

/// Run-length encoded: each entry holds from its page to the next entry.
struct Pages {
  std::mutex mutex;
  std::map<std::uint64_t, PagePolicy> runs{{0, PagePolicy{}}};
};
Pages& pages() {
  static Immortal<Pages> all;
  return *all;
}

using Runs = std::map<std::uint64_t, PagePolicy>;

/// Makes an entry begin at `page`.
Runs::iterator cut(Runs& runs, std::uint64_t page) {
  const auto after = runs.upper_bound(page);
  const auto holder = std::prev(after);
  return holder->first == page ? holder : runs.emplace_hint(after, page, holder->second);
}

/// Joins the entries around `first` to `last` where they are equal.
void join(Runs& runs, std::uint64_t first, std::uint64_t last) {
  auto run = runs.lower_bound(first);
  if (run == runs.begin()) ++run;
  while (run != runs.end() && run->first <= last) {
    run = std::prev(run)->second == run->second ? runs.erase(run) : std::next(run);
  }
}

void change_runs(std::uint64_t first, std::uint64_t end,
                 const std::function<void(PagePolicy&)>& change) {
  if (first >= end) return;
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  cut(all.runs, end);
  for (auto run = cut(all.runs, first); run->first < end; ++run) change(run->second);
  join(all.runs, first, end);
}

std::uint64_t first_page(Range range) {
  return range.address / page_size();
}
std::uint64_t end_page(Range range) {
  return round_up(range.address + range.size, page_size()) / page_size();
}

/// After READ_MOSTLY is lifted one copy remains: at the preferred location if it is there.
std::uint32_t one_copy(const PagePolicy& policy) {
  const std::uint32_t preferred = processor_bit(policy.preferred) & policy.resident;
  return preferred != 0 ? preferred : policy.resident & (~policy.resident + 1);
}

}  // namespace

bool PagePolicy::operator==(const PagePolicy& other) const noexcept {
  const auto same = [](Location a, Location b) { return a.type == b.type && a.id == b.id; };
  return read_mostly == other.read_mostly && same(preferred, other.preferred) &&
         same(last_prefetch, other.last_prefetch) && accessed_by == other.accessed_by &&
         resident == other.resident;
}

std::uint32_t processor_bit(Location location) noexcept {
  switch (location.type) {
    case LocationType::none: return 0;
    case LocationType::device: return processor_bit(location.id);
    default: return processor_bit(device_cpu);
  }
}

std::vector<PageRun> page_runs(Range range) {
  const std::uint64_t first = first_page(range);
  const std::uint64_t end = end_page(range);
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  std::vector<PageRun> list;
  for (auto run = std::prev(all.runs.upper_bound(first)); run != all.runs.end(); ++run) {
    if (run->first >= end) break;
    const auto next = std::next(run);
    const std::uint64_t from = std::max(first, run->first);
    const std::uint64_t to = next == all.runs.end() ? end : std::min(end, next->first);
    list.push_back({from, to - from, run->second});
  }
  return list;
}

void change_pages(Range range, const std::function<void(PagePolicy&)>& change) {
  if (ASSAY_MODEL_BROKEN("advice_is_rounded_outward")) {
    change_runs(first_page({range.address + page_size() - 1, 0}),
                (range.address + range.size) / page_size(), change);
    return;
  }
  change_runs(first_page(range), end_page(range), change);
}

void forget_pages(Range range) {
  change_runs(round_up(range.address, page_size()) / page_size(),
              (range.address + range.size) / page_size(),
              [](PagePolicy& policy) { policy = PagePolicy{}; });
}

std::uint64_t resident_bytes(Range range, Device device) {
  std::uint64_t bytes = 0;
  for (const PageRun& run : page_runs(range)) {
    if ((run.policy.resident & processor_bit(device)) == 0) continue;
    const std::uint64_t from = std::max(range.address, run.first * page_size());
    const std::uint64_t to =
        std::min(range.address + range.size, (run.first + run.pages) * page_size());
    bytes += to - from;
  }
  return bytes;
}

void apply_advice(Range range, Advise advice, Location location) {
  change_pages(range, [&](PagePolicy& policy) {
    switch (advice) {
      case Advise::set_read_mostly: policy.read_mostly = true; break;
      case Advise::unset_read_mostly:
        policy.read_mostly = false;
        if (!ASSAY_MODEL_BROKEN("read_mostly_collapses")) policy.resident = one_copy(policy);
        break;
      case Advise::set_preferred_location: policy.preferred = location; break;
      case Advise::unset_preferred_location: policy.preferred = {LocationType::none, 0}; break;
      case Advise::set_accessed_by: policy.accessed_by |= processor_bit(location); break;
      case Advise::unset_accessed_by: policy.accessed_by &= ~processor_bit(location); break;
    }
  });
}

void note_prefetch_request(Range range, Location destination) {
  change_pages(range, [&](PagePolicy& policy) { policy.last_prefetch = destination; });
}

void apply_prefetch(Range range, Location destination) noexcept {
  if (!ASSAY_MODEL_BROKEN("prefetch_ends_discard")) end_discard(range);
  if (ASSAY_MODEL_BROKEN("prefetch_moves")) return;
  const std::uint64_t first = first_page(range);
  std::uint64_t end = end_page(range);
  if (end - first > 1 && answer(Rule::prefetch_partial, Status::success) == Status::success) {
    --end;  // residency is not the last prefetch
  }
  change_runs(first, end, [&](PagePolicy& policy) {
    const std::uint32_t there = processor_bit(destination);
    policy.resident = policy.read_mostly ? policy.resident | there : there;
  });
}

void note_device_access(Range range, Device device, bool write) noexcept {
  change_pages(range, [&](PagePolicy& policy) {
    const std::uint32_t here = processor_bit(device);
    if (policy.read_mostly && (!write || ASSAY_MODEL_BROKEN("write_collapses"))) {
      policy.resident |= here;
      return;
    }
    const std::uint32_t preferred = processor_bit(policy.preferred);
    const bool remote = !policy.read_mostly && preferred != 0 && preferred != here &&
                        (policy.accessed_by & here) != 0;
    policy.resident = remote ? (policy.resident != 0 ? policy.resident : preferred) : here;
  });
}

}  // namespace assay::cuda::model
