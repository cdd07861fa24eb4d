// B1, B3: clone and view of a shared value, and making a value shared.
#include <array>

#include "material.hpp"

namespace assay::yardstick {
namespace {

/// Another handle, made and dropped.
template <bool whole>
class AnotherHandle final : public Pair {
 public:
  explicit AnotherHandle(std::size_t size) : size_(size), value_(shared_value(size)) {}

  std::string verify() override {
    const std::size_t first = whole ? 0 : size_ / 4;
    const std::size_t size = whole ? size_ : size_ / 2;
    const Bytes other = must(make());
    if (other.data() != value_.data() + first) return "the other handle has bytes of its own";
    if (!holds_pattern(other, size, first)) return "the other handle holds other bytes";
    if (!other.is_shared() || !value_.is_shared()) return "a handle is not shared";
    return "";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const auto other = make();
      if (!other) return fail(other.error());
      use(other);
    }
  }
  void yardstick(std::size_t times) override { increments_and_decrements(counter_, times); }

 private:
  [[nodiscard]] Result<Bytes> make() const noexcept {
    if constexpr (whole) return value_.clone();
    return value_.view(size_ / 4, size_ / 4 + size_ / 2);
  }

  std::size_t size_;
  Bytes value_;
  alignas(64) std::atomic<std::uint32_t> counter_{1};
};

class MakeShared final : public Pair {
 public:
  explicit MakeShared(std::size_t size) : size_(size), values_(exclusive_values(size)) {}

  std::string verify() override {
    const std::byte* const before = values_[0].data();
    operation(1);
    for (const Bytes& value : values_) {
      if (!value.is_shared()) return "a value is not shared afterwards";
    }
    {
      const Bytes other = must(values_[0].clone());
      if (other.data() != before) return "a clone of the shared value has bytes of its own";
      if (!holds_pattern(other, size_)) return "the shared value holds other bytes";
    }
    undo();
    return "";
  }
  void operation(std::size_t) override {
    for (Bytes& value : values_) {
      if (const auto done = value.shared(); !done) return fail(done.error());
    }
  }
  void undo() override {
    for (Bytes& value : values_) {
      if (const auto written = value.write(Writer::no_copy()); !written) {
        return fail(written.error());
      }
    }
  }
  void yardstick(std::size_t) override { increments(counter_, values_.size()); }

 private:
  std::size_t size_;
  std::vector<Bytes> values_;
  alignas(64) std::atomic<std::uint32_t> counter_{0};
};

constexpr const char* counted = "an atomic increment and decrement";

}  // namespace

std::span<const Row> sharing() {
  static constexpr std::array rows = {
      Row{.name = "B1.clone",
          .size = 4096,
          .summary = "clone of a shared value, dropped",
          .yardstick = counted,
          .limit = 1.25,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<AnotherHandle<true>>},
      Row{.name = "B1.view",
          .size = 4096,
          .summary = "view of half a shared value, dropped",
          .yardstick = counted,
          .limit = 1.25,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<AnotherHandle<false>>},
      // The goal is 2 ns, where an atomic increment takes 1.66 ns.
      Row{.name = "B3.shared",
          .size = 4096,
          .summary = "an exclusive value becomes shared",
          .yardstick = "an atomic increment",
          .limit = 1.2,
          .items = batch,
          .undone = true,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<MakeShared>},
  };
  return rows;
}

}  // namespace assay::yardstick
