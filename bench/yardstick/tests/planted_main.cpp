// assay-yardstick-planted: rows that are broken on purpose, each in one way, to prove that none of
// them ever becomes a fast row.
#include <sys/mman.h>

#include <array>

#include "assay/base/system.hpp"
#include "program.hpp"
#include "rows/material.hpp"

namespace assay::yardstick {
namespace {

constexpr std::size_t payload_bytes = 4096;

/// A row that increments a counter as its yardstick does.
class Counter : public Pair {
 public:
  explicit Counter(std::size_t) {}
  std::string verify() override { return ""; }
  void operation(std::size_t times) override { increments(counter_, times); }
  void yardstick(std::size_t times) override { increments(counter_, times); }

 private:
  std::atomic<std::uint32_t> counter_{0};
};

/// Says that it copies nothing, and clones an exclusive value.
class Copies final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) use(must(value_.clone()));
  }

 private:
  Bytes value_ = exclusive_value(payload_bytes);
};

/// Copies as much as it says, but only in its first call.
class CopiesTooLittle final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override {
    if (!done_) use(must(value_.clone()));
    done_ = true;
    Counter::operation(times);
  }

 private:
  Bytes value_ = exclusive_value(payload_bytes);
  bool done_ = false;
};

/// Says that it faults nothing in, and touches a page of a new mapping.
class Faults final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      void* const page =
          ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (page == MAP_FAILED) return fail(Error::make(ErrorCode::out_of_memory, "mmap"));
      *static_cast<volatile char*>(page) = 1;
      ::munmap(page, page_size());
    }
  }
};

/// Its answer is a view of other bytes than those asked for.
class WrongAnswer final : public Counter {
 public:
  using Counter::Counter;
  std::string verify() override {
    const Bytes view = must(value_.view(1, 9));
    return holds_pattern(view, 8) ? "" : "the view holds other bytes";
  }

 private:
  Bytes value_ = shared_value(payload_bytes);
};

/// Its answer is right until it is timed.
class FailsLater final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override {
    Counter::operation(times);
    if (const auto view = value_.view(0, payload_bytes + 1); !view) fail(view.error());
  }

 private:
  Bytes value_ = shared_value(payload_bytes);
};

class CannotBePrepared final : public Counter {
 public:
  explicit CannotBePrepared(std::size_t size) : Counter(size) {
    must(shared_value(payload_bytes).view(1, 0));
  }
};

/// Does a hundred times the work of its yardstick.
class Slow final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override { Counter::operation(100 * times); }
};

/// Its first two calls take longer than a window, as if something had come between.
class InterruptedAtFirst final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override {
    Counter::operation(calls_++ < 2 ? 10'000'000 : times);
  }

 private:
  std::size_t calls_ = 0;
};

/// Two windows of three hold a hundred times the work.
class Unsteady final : public Counter {
 public:
  using Counter::Counter;
  void operation(std::size_t times) override {
    Counter::operation(++calls_ % 3 == 0 ? times : 100 * times);
  }

 private:
  std::size_t calls_ = 0;
};

template <class Made>
constexpr Row planted(const char* name) {
  return {.name = name,
          .summary = "planted",
          .yardstick = "an atomic increment",
          .limit = 50,
          .make = make_pair_of<Made>};
}

constexpr Row copying(Row row, std::uint64_t bytes) {
  row.copied = bytes;
  return row;
}

constexpr Row without_faults(Row row) {
  row.no_faults = true;
  return row;
}

constexpr Row on_threads(Row row, unsigned threads) {
  row.threads = threads;
  return row;
}

constexpr std::array rows = {
    copying(planted<Counter>("P.good"), 0),
    copying(planted<Copies>("P.copies"), 0),
    copying(planted<CopiesTooLittle>("P.copies_too_little"), payload_bytes),
    without_faults(planted<Faults>("P.faults")),
    planted<WrongAnswer>("P.wrong_answer"),
    planted<FailsLater>("P.fails_later"),
    planted<CannotBePrepared>("P.cannot_be_prepared"),
    planted<Slow>("P.slow"),
    planted<InterruptedAtFirst>("P.interrupted_at_first"),
    planted<Unsteady>("P.unsteady"),
    on_threads(planted<Counter>("P.too_many_threads"), 4096),
};

}  // namespace
}  // namespace assay::yardstick

int main(int argc, char** argv) {
  return assay::yardstick::yardstick_main(argc, argv, assay::yardstick::rows);
}
