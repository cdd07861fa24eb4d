// B4: a value cut in halves, the left one staying in place.
#include <array>

#include "material.hpp"

namespace assay::yardstick {
namespace {

template <bool of_shared, SplitPolicy policy>
class Split final : public Pair {
 public:
  explicit Split(std::size_t size)
      : size_(size), lefts_(of_shared ? shared_values(size) : exclusive_values(size)) {
    rights_.reserve(lefts_.size());
  }

  std::string verify() override {
    const std::byte* const before = lefts_[0].data();
    operation(1);
    if (!trouble().empty()) return trouble();
    for (std::size_t i = 0; i < lefts_.size(); ++i) {
      if (!holds_pattern(lefts_[i], size_ / 2)) return "the left half holds other bytes";
      if (!holds_pattern(rights_[i], size_ - size_ / 2, size_ / 2)) {
        return "the right half holds other bytes";
      }
      if (rights_[i].data() != lefts_[i].data() + size_ / 2) return "a half was moved";
      const bool exclusive = !of_shared || policy == SplitPolicy::owned;
      if (lefts_[i].is_exclusive() != exclusive || rights_[i].is_exclusive() != exclusive) {
        return "a half is not what the policy says";
      }
    }
    if (lefts_[0].data() != before) return "the left half was moved";
    undo();
    return holds_pattern(lefts_[0], size_) ? "" : "the halves do not join";
  }
  void operation(std::size_t) override {
    std::size_t half = size_ / 2;
    hide(half);
    for (Bytes& left : lefts_) {
      auto right = left.split(half, policy);
      if (!right) return fail(right.error());
      rights_.push_back(std::move(right.value()));
    }
  }
  void undo() override {
    for (std::size_t i = 0; i < rights_.size(); ++i) {
      if (const auto done = lefts_[i].join(std::move(rights_[i])); !done) return fail(done.error());
      if constexpr (of_shared) {
        if (const auto done = lefts_[i].shared(); !done) return fail(done.error());
      }
    }
    rights_.clear();
  }
  void yardstick(std::size_t) override { increments(counter_, lefts_.size()); }

 private:
  std::size_t size_;
  std::vector<Bytes> lefts_;
  std::vector<Bytes> rights_;
  alignas(64) std::atomic<std::uint32_t> counter_{0};
};

constexpr Row split_row(const char* name, std::size_t size, const char* summary,
                        std::unique_ptr<Pair> (*make)(std::size_t)) {
  return {.name = name,
          .size = size,
          .summary = summary,
          .yardstick = "an atomic increment",
          .limit = 3,
          .items = batch_of(size),
          .undone = true,
          .copied = 0,
          .no_faults = true,
          .make = make};
}

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

}  // namespace

std::span<const Row> split() {
  constexpr auto shared = make_pair_of<Split<false, SplitPolicy::shared>>;
  constexpr auto owned = make_pair_of<Split<false, SplitPolicy::owned>>;
  constexpr auto of_shared = make_pair_of<Split<true, SplitPolicy::shared>>;
  constexpr auto owned_of_shared = make_pair_of<Split<true, SplitPolicy::owned>>;
  static constexpr std::array rows = {
      split_row("B4.split", 4 * kib, "an exclusive value split, policy shared", shared),
      split_row("B4.split", mib, "an exclusive value split, policy shared", shared),
      split_row("B4.split_owned", 4 * kib, "an exclusive value split, policy owned", owned),
      split_row("B4.split_owned", mib, "an exclusive value split, policy owned", owned),
      split_row("B4.split_of_shared", 4 * kib, "a shared value split, policy shared", of_shared),
      split_row("B4.split_owned_of_shared", 4 * kib, "the last shared handle split, policy owned",
                owned_of_shared),
  };
  return rows;
}

}  // namespace assay::yardstick
