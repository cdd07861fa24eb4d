// The gate's fixtures: the same rows in both, and exactly one with a fifth more work.
#include "planted.hpp"

#include "support.hpp"

namespace assay::bench {
namespace {

/// Calls that reach a backing of this id in 100 iterations.
std::uint64_t calls_in_100_iterations(std::string_view subject, std::size_t size_bytes) {
  class Counter final : public Adaptor {
   public:
    explicit Counter(const Ref<Backing>& upstream)
        : Adaptor(renamed(upstream->info().id, *upstream), upstream) {}
    std::uint64_t calls = 0;

   private:
    Block do_allocate(const Request& request, Error& error) noexcept override {
      ++calls;
      return allocate_from(upstream(), request, error);
    }
  };
  const auto counter =
      Ref<Counter>::adopt(new Counter(harness::find_subject(subject)->make({}).value()));
  PlantedAllocateFree operation({.size_bytes = size_bytes, .seed = 1});
  Error error;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(operation(*counter, error));
  return counter->calls;
}

TEST(Planted, ExactlyOneRowMakesAFifthMoreCalls) {
  for (const bool planting : {false, true}) {
    PlantedAllocateFree::planting = planting;
    for (const char* subject : {"heap", "malloc"}) {
      for (std::size_t size = 64; size <= 4096; size *= 4) {
        const bool slower = planting && subject == planted_subject && size == planted_size_bytes;
        EXPECT_EQ(calls_in_100_iterations(subject, size), slower ? 120u : 100u)
            << subject << " " << size;
      }
    }
  }
}

TEST(Planted, BothProgramsOfferTheSameFewRows) {
  const auto base = run("assay-bench-fixture", {"--benchmark_list_tests"});
  const auto head = run("assay-bench-planted", {"--benchmark_list_tests"});
  EXPECT_EQ(base.code, 0);
  EXPECT_EQ(base.standard_output, head.standard_output);
  EXPECT_NE(base.standard_output.find("allocate_free/backing:heap/size:256\n"), std::string::npos);
  EXPECT_LE(std::ranges::count(base.standard_output, '\n'), 12);
  for (const char* program : {"assay-bench-fixture", "assay-bench-planted"}) {
    EXPECT_EQ(run(program, {"--smoke"}).code, 0) << program;
  }
}

}  // namespace
}  // namespace assay::bench
