// B2: elements and slices of native, shared and viewed values.
#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "material.hpp"

namespace assay::yardstick {
namespace {

enum class Kind { native, shared, view };

/// `size` bytes of the pattern behind a handle of the kind.
Bytes value_of(Kind kind, std::size_t size) {
  if (kind == Kind::native) return exclusive_value(size);
  if (kind == Kind::shared) return shared_value(size);
  return must(shared_value(2 * size).view(0, size));
}

/// Every element once, in a shuffled order: no compiler makes one check or one load of it.
template <Kind kind>
class Elements final : public Pair {
 public:
  explicit Elements(std::size_t size) : value_(value_of(kind, size)), bytes_(pattern(size)) {
    raw_ = {bytes_.data(), bytes_.size()};
    order_.resize(size);
    std::iota(order_.begin(), order_.end(), 0U);
    std::ranges::shuffle(order_, std::mt19937_64(1));
  }

  std::string verify() override {
    operation(1);
    const std::uint64_t sum = sum_;
    yardstick(1);
    return sum == sum_ ? "" : "the elements have another sum than the bytes they were made of";
  }
  void operation(std::size_t times) override {
    sum_ = sum_up(times, &value_, [](const Bytes& bytes, std::size_t i) { return bytes[i]; });
  }
  void yardstick(std::size_t times) override {
    sum_ = sum_up(times, &raw_, [](const RawSlice& raw, std::size_t i) { return raw.at(i); });
  }

 private:
  template <class Slice, class At>
  std::uint64_t sum_up(std::size_t times, const Slice* slice, At at) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < times; ++i) {
      hide(slice);
      sum = 0;
      for (const std::uint32_t index : order_) {
        sum += std::to_integer<std::uint64_t>(at(*slice, index));
      }
      hide(sum);
    }
    return sum;
  }

  Bytes value_;
  std::vector<std::byte> bytes_;
  RawSlice raw_;
  std::vector<std::uint32_t> order_;
  std::uint64_t sum_ = 0;
};

/// The slice of each of many handles, ready to be read.
template <Kind kind>
class Slices final : public Pair {
 public:
  explicit Slices(std::size_t size) : size_(size), bytes_(pattern(size)) {
    for (std::size_t i = 0; i < batch; ++i) values_.push_back(value_of(kind, size));
    raw_.resize(batch, {bytes_.data(), bytes_.size()});
  }

  std::string verify() override {
    for (const Bytes& value : values_) {
      const auto slice = must(value.read());
      if (slice.data() != value.data() || slice.size() != size_) return "a slice is elsewhere";
      if (!holds_pattern(value, size_)) return "a slice holds other bytes";
    }
    return "";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      for (const Bytes& value : values_) {
        const auto slice = value.read();
        if (!slice) return fail(slice.error());
        have(slice.value().data(), slice.value().size());
      }
    }
  }
  void yardstick(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      for (const RawSlice& raw : raw_) {
        ASSAY_CONTRACT(raw.data != nullptr, "a slice without bytes");
        have(raw.data, raw.len);
      }
    }
  }

 private:
  static void have(const std::byte* data, std::size_t size) noexcept {
    hide(data);
    hide(size);
  }

  std::size_t size_;
  std::vector<std::byte> bytes_;
  std::vector<Bytes> values_;
  std::vector<RawSlice> raw_;
};

constexpr Row element_row(const char* name, const char* summary,
                          std::unique_ptr<Pair> (*make)(std::size_t)) {
  return {.name = name,
          .size = 4096,
          .summary = summary,
          .yardstick = "the same through a checked raw pointer",
          .limit = 1.1,
          .items = 4096,
          .copied = 0,
          .no_faults = true,
          .make = make};
}

constexpr Row slice_row(const char* name, const char* summary,
                        std::unique_ptr<Pair> (*make)(std::size_t)) {
  Row row = element_row(name, summary, make);
  row.yardstick = "pointer and length of a raw slice, checked";
  row.items = batch;
  return row;
}

}  // namespace

std::span<const Row> access() {
  static constexpr std::array rows = {
      element_row("B2.element_native", "an element of an exclusive value",
                  make_pair_of<Elements<Kind::native>>),
      element_row("B2.element_shared", "an element of a shared value",
                  make_pair_of<Elements<Kind::shared>>),
      element_row("B2.element_view", "an element of a view", make_pair_of<Elements<Kind::view>>),
      slice_row("B2.slice_native", "the slice of an exclusive value",
                make_pair_of<Slices<Kind::native>>),
      slice_row("B2.slice_shared", "the slice of a shared value",
                make_pair_of<Slices<Kind::shared>>),
      slice_row("B2.slice_view", "the slice of a view", make_pair_of<Slices<Kind::view>>),
  };
  return rows;
}

}  // namespace assay::yardstick
