// B5 and half of B8: the first write to a shared value without sharers, and the writes that follow.
#include <array>

#include "assay/base/node_pool.hpp"
#include "material.hpp"

namespace assay::yardstick {
namespace {

class FirstWrite final : public Pair {
 public:
  explicit FirstWrite(std::size_t size) : size_(size), values_(shared_values(size)) {}

  std::string verify() override {
    const std::byte* const before = values_[0].data();
    const auto blocks = Home::host().backing().usage().live_blocks;
    const auto nodes = node_pool::balance_of_thread();
    operation(1);
    if (!trouble().empty()) return trouble();
    if (Home::host().backing().usage().live_blocks != blocks) return "a write allocated a block";
    if (node_pool::balance_of_thread() != nodes) return "a write allocated a node";
    if (values_[0].data() != before) return "a write moved the value";
    for (const Bytes& value : values_) {
      if (!value.is_exclusive()) return "a value is still shared after a write";
      if (!holds_pattern(value, size_)) return "the value to be written holds other bytes";
    }
    undo();
    return "";
  }
  void operation(std::size_t) override {
    for (Bytes& value : values_) {
      const auto bytes = value.write();
      if (!bytes) return fail(bytes.error());
      auto* at = bytes.value().data();
      hide(at);
    }
  }
  void undo() override {
    for (Bytes& value : values_) {
      if (const auto done = value.shared(); !done) return fail(done.error());
    }
  }
  void yardstick(std::size_t) override { increments(counter_, values_.size()); }

 private:
  std::size_t size_;
  std::vector<Bytes> values_;
  alignas(64) std::atomic<std::uint32_t> counter_{0};
};

/// A byte of each value, after a fork made it exclusive.
class NextWrite final : public Pair {
 public:
  explicit NextWrite(std::size_t size) : size_(size), bytes_(batch * size) {
    const Bytes origin = shared_value(size);
    for (std::size_t i = 0; i < batch; ++i) {
      values_.push_back(must(origin.clone()));
      must(values_.back().write());
      raw_.push_back({bytes_.data() + i * size, size});
    }
  }

  std::string verify() override {
    operation(1);
    for (const Bytes& value : values_) {
      if (value[size_ / 2] != written) return "a write did not reach its value";
      if (value[0] != pattern_at(0)) return "a write reached too far";
    }
    return "";
  }
  void operation(std::size_t times) override {
    std::size_t index = size_ / 2;
    for (std::size_t i = 0; i < times; ++i) {
      hide(index);
      for (Bytes& value : values_) {
        const auto bytes = value.write();
        if (!bytes) return fail(bytes.error());
        store(bytes.value().data(), bytes.value().size(), index);
      }
    }
  }
  void yardstick(std::size_t times) override {
    std::size_t index = size_ / 2;
    for (std::size_t i = 0; i < times; ++i) {
      hide(index);
      for (const RawSlice& raw : raw_) store(raw.data, raw.len, index);
    }
  }

 private:
  static constexpr std::byte written{0xA5};
  static void store(std::byte* data, std::size_t size, std::size_t index) noexcept {
    ASSAY_CONTRACT(index < size, "index past the end");
    data[index] = written;
    hide(data);
  }

  std::size_t size_;
  std::vector<std::byte> bytes_;
  std::vector<Bytes> values_;
  std::vector<RawSlice> raw_;
};

/// The goal is 2 ns, where an atomic increment takes 1.66 ns.
constexpr Row first_write_row(std::size_t size) {
  return {.name = "B5.first_write",
          .size = size,
          .summary = "the first write to a shared value without sharers",
          .yardstick = "an atomic increment",
          .limit = 1.2,
          .items = batch_of(size),
          .undone = true,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<FirstWrite>};
}

}  // namespace

std::span<const Row> write() {
  static constexpr std::array rows = {
      first_write_row(4096),
      first_write_row(std::size_t{1} << 20),
      // The goal is 1 ns, where a store takes 0.54 ns.
      Row{.name = "B8.next_write",
          .size = 64,
          .summary = "a byte written to a value after its copy-on-write",
          .yardstick = "a byte written to a raw slice, checked",
          .limit = 1.85,
          .items = batch,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<NextWrite>},
  };
  return rows;
}

}  // namespace assay::yardstick
