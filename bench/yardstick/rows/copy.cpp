// B7, B8: a deep copy, by clone and by the first write to a value that others share.
#include <array>

#include "material.hpp"

namespace assay::yardstick {
namespace {

/// Both are held against a copy by hand.
class Copying : public Pair {
 public:
  explicit Copying(std::size_t size) : size_(size), bytes_(pattern(size)) {}

  void yardstick(std::size_t times) final { copies_by_hand(bytes_.data(), size_, times); }

 protected:
  std::size_t size_;

 private:
  std::vector<std::byte> bytes_;
};

class CloneNative final : public Copying {
 public:
  explicit CloneNative(std::size_t size) : Copying(size), value_(exclusive_value(size)) {}

  std::string verify() override {
    Bytes copy = must(value_.clone());
    if (copy.data() == value_.data()) return "the clone has no bytes of its own";
    if (!holds_pattern(copy, size_)) return "the clone holds other bytes";
    must(copy.write())[0] ^= std::byte{1};
    return holds_pattern(value_, size_) ? "" : "a write to the clone reached the value";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const auto copy = value_.clone();
      if (!copy) return fail(copy.error());
      use(copy);
    }
  }

 private:
  Bytes value_;
};

class CopyOnWrite final : public Copying {
 public:
  explicit CopyOnWrite(std::size_t size) : Copying(size), value_(shared_value(size)) {}

  std::string verify() override {
    Bytes copy = must(value_.clone());
    if (copy.data() != value_.data()) return "the clone shares no bytes";
    must(copy.write())[0] ^= std::byte{1};
    if (copy[0] == pattern_at(0)) return "the write is lost";
    return holds_pattern(value_, size_) ? "" : "a write to the clone reached the value";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      auto copy = value_.clone();
      if (!copy) return fail(copy.error());
      const auto bytes = copy.value().write();
      if (!bytes) return fail(bytes.error());
      auto* at = bytes.value().data();
      hide(at);
    }
  }

 private:
  Bytes value_;
};

constexpr const char* by_hand = "malloc, memcpy and free";

constexpr Row clone_row(std::size_t size, double limit) {
  return {.name = "B7.clone_native",
          .size = size,
          .summary = "clone of an exclusive value, dropped",
          .yardstick = by_hand,
          .limit = limit,
          .copied = size,
          .make = make_pair_of<CloneNative>};
}

constexpr Row copy_on_write_row(std::size_t size) {
  return {.name = "B8.copy_on_write",
          .size = size,
          .summary = "clone of a shared value, first write to it, dropped",
          .yardstick = by_hand,
          .limit = 1.4,
          .copied = size,
          .make = make_pair_of<CopyOnWrite>};
}

}  // namespace

std::span<const Row> copy() {
  static constexpr std::array rows = {
      clone_row(64, 1.5),
      clone_row(4096, 1.25),
      clone_row(std::size_t{1} << 20, 1.25),
      copy_on_write_row(4096),
      copy_on_write_row(std::size_t{1} << 20),
  };
  return rows;
}

}  // namespace assay::yardstick
