#include "discards.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "arena.hpp"
#include "immortal.hpp"
#include "mutants.hpp"
#include "rules.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::size_t word_size = sizeof(std::uint64_t);

/// Bytes of one discard, or what is left of them.
struct Discarded {
  std::uint64_t end = 0;
  std::uint64_t salt = 0;  ///< of its pattern
  Site site;
};

struct Discards {
  std::mutex mutex;
  std::map<std::uint64_t, Discarded> by_begin;  ///< disjoint
  std::uint64_t last_salt = 0;
};
Discards& discards() {
  static Immortal<Discards> all;
  return *all;
}

/// So that memory which nobody discards costs no lock.
constinit std::atomic<bool> any{false};

std::uint64_t pattern_at(std::uint64_t address, std::uint64_t salt) {
  std::uint64_t word = (address / word_size + salt) * 0x9e3779b97f4a7c15ULL;
  word = (word ^ word >> 31) * 0xbf58476d1ce4e5b9ULL;
  return word ^ word >> 29;
}

/// Pre: the lock is held.
void forget(Discards& all, Range range) {
  const std::uint64_t end = range.address + range.size;
  auto run = all.by_begin.upper_bound(range.address);
  if (run != all.by_begin.begin()) --run;
  while (run != all.by_begin.end() && run->first < end) {
    const std::uint64_t begin = run->first;
    const Discarded whole = run->second;
    if (whole.end <= range.address) {
      ++run;
      continue;
    }
    run = all.by_begin.erase(run);
    if (begin < range.address) {
      Discarded before = whole;
      before.end = range.address;
      all.by_begin.emplace(begin, before);
    }
    if (whole.end > end) run = all.by_begin.emplace(end, whole).first;
  }
  any.store(!all.by_begin.empty(), std::memory_order_release);
}

bool is_intact(const std::byte* at, std::uint64_t address, std::uint64_t salt) {
  const std::uint64_t pattern = pattern_at(address, salt);
  return std::memcmp(at, &pattern, word_size) == 0;
}

/// The first word in the range that holds the pattern still. Only words that are read whole count:
/// a single byte may be equal by chance.
std::optional<std::uint64_t> intact_word(Range range, const std::byte* bytes, std::uint64_t salt) {
  const std::uint64_t end = range.address + range.size;
  for (std::uint64_t at = round_up(range.address, word_size); at + word_size <= end;
       at += word_size) {
    if (is_intact(bytes + (at - range.address), at, salt)) return at;
  }
  return std::nullopt;
}

}  // namespace

void discard_pages(Range range, std::byte* bytes, const Site& site) noexcept {
  const std::uint64_t begin = round_up(range.address, page_size());
  const std::uint64_t end = round_down(range.address + range.size, page_size());
  if (begin >= end || ASSAY_MODEL_BROKEN("discard_scrambles")) return;
  Discards& all = discards();
  const std::scoped_lock lock(all.mutex);
  forget(all, {begin, end - begin});
  const std::uint64_t salt = ++all.last_salt << 40;
  for (std::uint64_t at = begin; at < end; at += word_size) {
    const std::uint64_t pattern = pattern_at(at, salt);
    std::memcpy(bytes + (at - range.address), &pattern, word_size);
  }
  all.by_begin.emplace(begin, Discarded{end, salt, site});
  any.store(true, std::memory_order_release);
}

void end_discard(Range range) noexcept {
  if (!any.load(std::memory_order_acquire) || range.size == 0) return;
  Discards& all = discards();
  const std::scoped_lock lock(all.mutex);
  forget(all, range);
}

void look_for_discarded(Range range, const std::byte* bytes, const Site& reader) noexcept {
  if (!any.load(std::memory_order_acquire) || range.size == 0) return;
  std::string text;
  {
    Discards& all = discards();
    const std::scoped_lock lock(all.mutex);
    const std::uint64_t end = range.address + range.size;
    auto run = all.by_begin.upper_bound(range.address);
    if (run != all.by_begin.begin()) --run;
    for (; text.empty() && run != all.by_begin.end() && run->first < end; ++run) {
      const std::uint64_t from = std::max(run->first, range.address);
      const std::uint64_t to = std::min(run->second.end, end);
      if (from >= to) continue;
      const auto found =
          intact_word({from, to - from}, bytes + (from - range.address), run->second.salt);
      if (!found) continue;
      text = describe(reader) + " read " + describe_range(range.address, range.size) +
             ", of which " + describe_range(*found, word_size) + " were discarded by " +
             describe(run->second.site) + " and not written or prefetched since";
    }
  }
  if (!text.empty()) diagnose(Rule::discarded_read, text);
}

}  // namespace assay::cuda::model
