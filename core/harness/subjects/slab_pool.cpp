#include "assay/backing/slab_pool.hpp"

#include "assay/backing/virtual_memory.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {

const Subject& slab_pool() {
  static constexpr Subject subject{
      .id = "slab_pool",
      .origin = Origin::assay,
      .summary = "pool of size classes over mapped address space",
      .make = [](const SubjectContext& context) -> Result<Ref<Backing>> {
        return Ref<Backing>(SlabPool::make(context.upstream ? context.upstream
                                                            : Ref<Backing>(VirtualMemory::make())));
      }};
  return subject;
}

}  // namespace assay::harness::subject_list
