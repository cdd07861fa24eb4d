// The default host memory and the two adaptors that it is made of.
#include "assay/backing/host.hpp"

#include "assay/backing/by_size.hpp"
#include "assay/backing/heap.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/backing/zero_cache.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {

const Subject& host() {
  static constexpr Subject subject{
      .id = "host",
      .origin = Origin::assay,
      .summary = "the default: zero_cache(by_size(4MiB, heap, virtual(huge)))",
      .make = [](const SubjectContext& context) -> Result<Ref<Backing>> {
        return context.upstream ? make_host_over(context.upstream) : make_host();
      }};
  return subject;
}

const Subject& zero_cache() {
  // It keeps blocks of the sizes that most commands ask for.
  static constexpr Subject subject{
      .id = "zero_cache",
      .origin = Origin::assay,
      .summary = "cache of freed blocks of 256 bytes to 16 MiB over heap",
      .make = [](const SubjectContext& context) -> Result<Ref<Backing>> {
        return Ref<Backing>(
            ZeroCache::make(context.upstream ? context.upstream : Ref<Backing>(Heap::make()),
                            {.block_min = ZeroCache::class_min}));
      }};
  return subject;
}

const Subject& by_size() {
  static constexpr Subject subject{
      .id = "by_size",
      .origin = Origin::assay,
      .summary = "heap up to 4 KiB, mapped address space above",
      .make = [](const SubjectContext& context) -> Result<Ref<Backing>> {
        constexpr std::size_t limit = 4096;
        if (context.upstream) {
          return Ref<Backing>(BySize::make(limit, context.upstream, context.upstream));
        }
        return Ref<Backing>(BySize::make(limit, Heap::make(), VirtualMemory::make()));
      }};
  return subject;
}

}  // namespace assay::harness::subject_list
