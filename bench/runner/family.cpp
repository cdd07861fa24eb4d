#include "family.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

namespace assay::bench {

namespace family_list {
#define ASSAY_FAMILY(function) const Family& function();
#include "../micro/manifest.def"
#undef ASSAY_FAMILY
}  // namespace family_list

std::span<const Family* const> families() noexcept {
  static const std::array all = {
#define ASSAY_FAMILY(function) &family_list::function(),
#include "../micro/manifest.def"
#undef ASSAY_FAMILY
  };
  return all;
}

namespace detail {
namespace {

/// Counts what passes through it to the subject.
class Counting final : public Adaptor {
 public:
  explicit Counting(const Ref<Backing>& upstream)
      : Adaptor(renamed("counting", *upstream), upstream) {}

  [[nodiscard]] std::size_t allocations() const noexcept { return allocations_; }
  [[nodiscard]] std::size_t frees() const noexcept { return frees_; }

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    const Block block = allocate_from(upstream(), request, error);
    if (block) ++allocations_;
    return block;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    ++frees_;
    return deallocate_to(upstream(), block, release);
  }

  std::size_t allocations_ = 0;
  std::size_t frees_ = 0;
};

/// Where a block is written and read back: everywhere if it is small, else evenly spread, with
/// both ends; a 256 MiB block need not be faulted in whole to know that it is there.
std::vector<std::size_t> places_in(std::size_t size_bytes) {
  constexpr std::size_t most = 1024;
  const std::size_t count = std::min(size_bytes, most);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i + 1 < count; ++i) places.push_back(size_bytes / count * i);
  places.push_back(size_bytes - 1);
  return places;
}

std::byte pattern(std::uint64_t seed, std::size_t block, std::size_t place) {
  const std::uint64_t mixed = (seed + block * 131 + place) * 0x9e3779b97f4a7c15u;
  return static_cast<std::byte>(mixed >> 56);
}

struct Held {
  Block block;
  std::size_t index;
};

std::string write_pattern(Backing& backing, const Held& held, std::span<const std::size_t> places,
                          std::uint64_t seed) {
  for (const std::size_t place : places) {
    const std::byte value = pattern(seed, held.index, place);
    if (const auto wrote = backing.copy_in(held.block, place, {&value, 1}); !wrote) {
      return describe(wrote.error());
    }
  }
  return "";
}

std::string read_pattern(Backing& backing, const Held& held, std::span<const std::size_t> places,
                         std::uint64_t seed) {
  for (const std::size_t place : places) {
    std::byte value{};
    if (const auto read = backing.copy_out(held.block, place, {&value, 1}); !read) {
      return describe(read.error());
    }
    if (value != pattern(seed, held.index, place)) {
      return fmt::format("byte {} of block {} does not hold what was written", place, held.index);
    }
  }
  return "";
}

std::string write_and_read(Backing& backing, std::span<const Held> held, const Input& input) {
  const auto places = places_in(input.size_bytes);
  for (const Held& one : held) {
    if (auto wrong = write_pattern(backing, one, places, input.seed); !wrong.empty()) return wrong;
  }
  // Every block is written before the first is read, so that overlapping ones are seen.
  for (const Held& one : held) {
    if (auto wrong = read_pattern(backing, one, places, input.seed); !wrong.empty()) return wrong;
  }
  return "";
}

std::string fitness_of(Block block, const Request& request) {
  if (block.capacity < request.size) {
    return fmt::format("a block of {} bytes for a request of {}", block.capacity, request.size);
  }
  if (!is_aligned(block.address, request.alignment)) {
    return fmt::format("a block that is not aligned to {}", request.alignment);
  }
  return "";
}

std::uint64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

}  // namespace

std::string check_blocks(Backing& backing, const Input& input, std::size_t live_blocks) {
  const Request request{.size = input.size_bytes};
  std::vector<Held> held;
  std::string wrong;
  while (held.size() < live_blocks && wrong.empty()) {
    const auto block = backing.allocate(request);
    if (!block) {
      wrong = describe(block.error());
      break;
    }
    held.push_back({block.value(), held.size()});
    wrong = fitness_of(block.value(), request);
  }
  if (wrong.empty()) wrong = write_and_read(backing, held, input);
  for (const Held& one : held) {
    const Freed freed = backing.deallocate(one.block, request);
    if (did_not_free(freed) && wrong.empty()) wrong = "a free failed";
  }
  return wrong;
}

std::string check_counts(Backing& backing, std::size_t allocations,
                         bool (*once)(Backing&, const Input&, Error&), const Input& input) {
  const std::uint64_t live_before = backing.usage().live_blocks;
  const auto counting = Ref<Counting>::adopt(new Counting(Ref<Backing>::retain(&backing)));
  Error error;
  if (!once(*counting, input, error)) return describe(error);
  if (counting->allocations() != allocations || counting->frees() != allocations) {
    return fmt::format("an iteration made {} allocations and {} frees instead of {} of each",
                       counting->allocations(), counting->frees(), allocations);
  }
  const std::uint64_t live_after = backing.usage().live_blocks;
  if (live_after != live_before) {
    return fmt::format("{} blocks live before an iteration and {} after it", live_before,
                       live_after);
  }
  return "";
}

RowCounters::RowCounters() : faults_before_(page_faults()) {}

void RowCounters::report(benchmark::State& state, const Family& family, const Input& input) const {
  const std::uint64_t faults = page_faults() - faults_before_;
  const auto iterations = static_cast<std::int64_t>(state.iterations());
  const auto operations = static_cast<std::int64_t>(std::max<std::size_t>(family.allocations, 1));
  state.SetItemsProcessed(iterations * operations);
  if (family.touches) {
    state.SetBytesProcessed(iterations * operations * static_cast<std::int64_t>(input.size_bytes));
  }
  state.counters["bytes_per_operation"] = static_cast<double>(input.size_bytes);
  state.counters["allocations"] = static_cast<double>(family.allocations);
  state.counters["page_faults"] =
      benchmark::Counter(static_cast<double>(faults), benchmark::Counter::kAvgIterations);
}

}  // namespace detail
}  // namespace assay::bench
