// B6: a vector taken over.
#include <array>
#include <cstdlib>

#include "material.hpp"

namespace assay::yardstick {
namespace {

using Vector = std::vector<std::uint8_t>;

/// As many as the node pool keeps for a thread: hot, as the yardstick is.
constexpr std::size_t vectors = 64;

class Adopt final : public Pair {
 public:
  explicit Adopt(std::size_t size) : size_(size) {
    Vector vector(size);
    for (std::size_t i = 0; i < size; ++i) {
      vector[i] = std::to_integer<std::uint8_t>(pattern_at(i));
    }
    vectors_.resize(vectors, vector);
    adopted_.reserve(vectors_.size());
  }

  std::string verify() override {
    const auto* const before = reinterpret_cast<const std::byte*>(vectors_[0].data());
    operation(1);
    if (!trouble().empty()) return trouble();
    if (adopted_[0].data() != before) return "the vector's bytes were moved";
    for (const Bytes& value : adopted_) {
      if (!holds_pattern(value, size_)) return "a value holds other bytes than its vector";
    }
    undo();
    const bool back = reinterpret_cast<const std::byte*>(vectors_[0].data()) == before;
    return back ? trouble() : "the vector does not come back out";
  }
  void operation(std::size_t) override {
    for (Vector& vector : vectors_) {
      auto value = Bytes::from_vector(std::move(vector));
      if (!value) return fail(value.error());
      adopted_.push_back(std::move(value.value()));
    }
  }
  void undo() override {
    for (std::size_t i = 0; i < adopted_.size(); ++i) {
      auto vector = adopted_[i].try_into_vec<std::uint8_t>();
      if (!vector) return fail(vector.error());
      vectors_[i] = std::move(vector.value());
    }
    adopted_.clear();
  }
  void yardstick(std::size_t) override {
    std::size_t block = 64;
    hide(block);
    for (std::size_t i = 0; i < vectors_.size(); ++i) {
      void* at = std::malloc(block);
      hide(at);
      std::free(at);
    }
  }

 private:
  std::size_t size_;
  std::vector<Vector> vectors_;
  std::vector<Bytes> adopted_;
};

constexpr Row adopt_row(std::size_t size) {
  return {.name = "B6.from_vector",
          .size = size,
          .summary = "a vector of bytes taken over",
          .yardstick = "malloc and free of 64 bytes",
          .limit = 1.5,
          .items = vectors,
          .undone = true,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<Adopt>};
}

}  // namespace

std::span<const Row> adopt() {
  static constexpr std::array rows = {adopt_row(16), adopt_row(4096),
                                      adopt_row(std::size_t{1} << 20)};
  return rows;
}

}  // namespace assay::yardstick
