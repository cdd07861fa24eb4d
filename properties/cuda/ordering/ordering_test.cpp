// Every program over several streams that waits where it must is silent, and of every one that does
// not the model names the two calls. Programs are random and correct; then each wait is left out,
// each record left out, made too early or taken for another's, each free made too early. What is
// right and wrong is known from a graph (graph.hpp), not from the model's clocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <rapidcheck.h>

#include <array>
#include <sstream>

#include "generate.hpp"
#include "judge.hpp"
#include "mutate.hpp"
#include "over_backing.hpp"
#include "run.hpp"

namespace rc {

template <>
struct Arbitrary<assay::ordering::Intent> {
  static Gen<assay::ordering::Intent> arbitrary() {
    using assay::ordering::Intent;
    const auto any = gen::resize(kNominalSize, gen::arbitrary<std::uint8_t>());
    return gen::build<Intent>(gen::set(&Intent::what, any), gen::set(&Intent::stream, any),
                              gen::set(&Intent::block, any), gen::set(&Intent::value, any),
                              gen::set(&Intent::style, any));
  }
};

}  // namespace rc

namespace assay::ordering {

static void showValue(const Intent& intent, std::ostream& out) {
  out << fmt::format("{{{}, {}, {}, {}, {}}}", intent.what, intent.stream, intent.block,
                     intent.value, intent.style);
}

namespace {

struct Totals {
  std::size_t run = 0;
  std::size_t needed = 0;
  std::size_t found = 0;
  std::size_t open = 0;
  [[nodiscard]] std::size_t silent() const { return run - needed - open; }
};

struct Counted {
  std::size_t programs = 0;
  std::size_t commands = 0;
  std::array<Totals, static_cast<std::size_t>(Fault::count)> by_fault{};
};

/// Checks the program, then each mutant of it.
void check(const Shape& shape, Through through, const std::vector<Intent>& intents,
           Counted& counted) {
  const Ref<cuda::Driver>& driver = model(ASSAY_MODEL_LIBRARY);
  const auto run_as = [&](const Program& program) {
    return through == Through::backing ? over_backing(program) : program;
  };
  const Program program = make_program(shape, intents);
  const Program correct = run_as(program);
  ++counted.programs;
  counted.commands += program.commands.size();
  if (const std::string fault = judge_correct(driver, correct, through); !fault.empty()) {
    RC_FAIL(fault + "\n" + to_text(correct));
  }
  for (const Mutant& mutant : mutants_of(program)) {
    const Program wrong = run_as(mutant.program);
    const Verdict verdict = judge(driver, wrong, through);
    if (!verdict.disagreement.empty()) {
      RC_FAIL(verdict.disagreement + "\n" + mutant.what + "\n" + to_text(wrong));
    }
    Totals& totals = counted.by_fault[static_cast<std::size_t>(mutant.fault)];
    ++totals.run;
    totals.needed += verdict.needed ? 1 : 0;
    totals.found += verdict.found ? 1 : 0;
    totals.open += verdict.open ? 1 : 0;
  }
}

void tell(const Counted& counted) {
  fmt::print("programs: {}, calls: {}\n", counted.programs, counted.commands);
  for (std::size_t i = 0; i < counted.by_fault.size(); ++i) {
    const Totals& totals = counted.by_fault[i];
    fmt::print("{}: {}, needed: {}, found: {}, redundant and silent: {}, left open: {}\n",
               name_of(static_cast<Fault>(i)), totals.run, totals.needed, totals.found,
               totals.silent(), totals.open);
    EXPECT_EQ(totals.found, totals.needed);
    EXPECT_GT(totals.needed, 0U) << "nothing was put to the test";
  }
}

void expect_all_found(const Shape& shape, int programs, Through through = Through::driver) {
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = programs;
  params.maxSize = 80;
  Counted counted;
  const auto result = rc::detail::checkTestable(
      [&](const std::vector<Intent>& intents, bool writes_ordered) {
        Shape of_this = shape;
        of_this.writes_ordered = writes_ordered;
        check(of_this, through, intents, counted);
      },
      rc::detail::TestMetadata(), params);
  if (!result.is<rc::detail::SuccessResult>()) {
    std::ostringstream text;
    rc::detail::printResultMessage(result, text);
    FAIL() << text.str();
  }
  tell(counted);
}

TEST(Ordering, TwoStreams) {
  expect_all_found({.streams = 2}, 300);
}
TEST(Ordering, TwoStreamsAndTheDefaultOne) {
  expect_all_found({.streams = 2, .default_stream = true}, 300);
}
TEST(Ordering, ThreeStreams) {
  expect_all_found({.streams = 3, .renewals = true}, 300);
}
TEST(Ordering, ThreeStreamsTheDefaultOneAndHostFunctions) {
  expect_all_found({.streams = 3, .default_stream = true, .host_functions = true, .renewals = true},
                   300);
}
// The same of programs whose memory comes from DevicePool: what it waits for by itself counts.
TEST(Ordering, TwoStreamsOverTheBacking) {
  expect_all_found({.streams = 2, .host_frees = false}, 200, Through::backing);
}
TEST(Ordering, ThreeStreamsOverTheBacking) {
  expect_all_found({.streams = 3, .host_frees = false}, 200, Through::backing);
}

}  // namespace
}  // namespace assay::ordering
