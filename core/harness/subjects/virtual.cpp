#include "assay/backing/virtual_memory.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {

const Subject& virtual_memory() {
  static constexpr Subject subject{.id = "virtual",
                                   .origin = Origin::assay,
                                   .summary = "mapped address space, grown in place",
                                   .make = [](const SubjectContext&) -> Result<Ref<Backing>> {
                                     return Ref<Backing>(VirtualMemory::make());
                                   }};
  return subject;
}

const Subject& virtual_huge() {
  static constexpr Subject subject{
      .id = "virtual_huge",
      .origin = Origin::assay,
      .summary = "mapped address space with huge pages advised",
      .make = [](const SubjectContext&) -> Result<Ref<Backing>> {
        return Ref<Backing>(VirtualMemory::make(VirtualMemory::HugePages::advised));
      }};
  return subject;
}

}  // namespace assay::harness::subject_list
