#include "assay/backing/heap.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {

const Subject& heap() {
  static constexpr Subject subject{.id = "heap",
                                   .origin = Origin::assay,
                                   .summary = "aligned host memory from malloc",
                                   .make = [](const SubjectContext&) -> Result<Ref<Backing>> {
                                     return Ref<Backing>(Heap::make());
                                   }};
  return subject;
}

}  // namespace assay::harness::subject_list
