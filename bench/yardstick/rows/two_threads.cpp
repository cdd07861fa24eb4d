// B13: two threads that clone and drop handles of one block.
#include <array>

#include "../crew.hpp"
#include "material.hpp"

namespace assay::yardstick {
namespace {

class ContendedClone final : public Pair {
 public:
  explicit ContendedClone(std::size_t size)
      : value_(shared_value(size)), size_(size), crew_(cpus().at(1)) {}

  std::string verify() override {
    constexpr std::size_t many = 10'000;
    const auto blocks = block_count();
    operation(many);
    if (failed_.load()) return "a clone failed";
    if (block_count() != blocks) return "clones allocated blocks";
    if (!holds_pattern(value_, size_)) return "the value holds other bytes afterwards";
    // Every count came back: the value is the only handle again, and is written where it is.
    must(value_.write(Writer::no_copy()));
    must(value_.shared());
    return "";
  }
  void operation(std::size_t times) override {
    crew_.run([this, times] {
      for (std::size_t i = 0; i < times; ++i) {
        const auto other = value_.clone();
        if (!other) return failed_.store(true);
        use(other);
      }
    });
    if (failed_.load()) fail(Error::make(ErrorCode::out_of_memory, "clone"));
  }
  void yardstick(std::size_t times) override {
    crew_.run([this, times] { increments_and_decrements(counter_, times); });
  }
  [[nodiscard]] std::uint64_t copied_elsewhere() const noexcept override { return crew_.copied(); }

 private:
  static std::size_t block_count() { return Home::host().backing().usage().live_blocks; }

  alignas(64) std::atomic<std::uint32_t> counter_{1};
  alignas(64) Bytes value_;
  std::size_t size_;
  std::atomic<bool> failed_{false};
  Crew crew_;
};

}  // namespace

std::span<const Row> two_threads() {
  static constexpr std::array rows = {
      Row{.name = "B13.clone_two_threads",
          .size = 4096,
          .summary = "clones of one shared value by two threads, dropped",
          .yardstick = "an atomic increment and decrement by two threads",
          .limit = 2,
          .threads = 2,
          .copied = 0,
          .no_faults = true,
          .make = make_pair_of<ContendedClone>},
  };
  return rows;
}

}  // namespace assay::yardstick
