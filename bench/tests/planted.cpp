#include "planted.hpp"

#include <array>

#include "allocate_free_batch.hpp"

namespace assay::bench {
namespace {

/// The ordinary family with two sizes only, so that a run of the gate is quick.
class SmallBatch : public AllocateFreeBatch {
 public:
  static constexpr Family facts = [] {
    Family family = AllocateFreeBatch::facts;
    family.sizes = {.first = 64, .last = 256, .last_full = 256};
    return family;
  }();
  using AllocateFreeBatch::AllocateFreeBatch;
};

}  // namespace

int planted_main(int argc, char** argv, bool planting) {
  PlantedAllocateFree::planting = planting;
  static constexpr Family one = family_of<PlantedAllocateFree>();
  static constexpr Family batch = family_of<SmallBatch>();
  static constexpr std::array<const Family*, 2> offered = {&one, &batch};
  const std::array subjects = {harness::find_subject("heap"), harness::find_subject("malloc")};
  return bench_main(argc, argv, {.subjects = subjects, .families = offered});
}

}  // namespace assay::bench
