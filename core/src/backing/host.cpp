#include "assay/backing/host.hpp"

#include "assay/backing/by_size.hpp"
#include "assay/backing/heap.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/backing/zero_cache.hpp"

namespace assay {

Ref<Backing> make_host() {
  return ZeroCache::make(BySize::make(host_mapped_above, Heap::make(),
                                      VirtualMemory::make(VirtualMemory::HugePages::advised)));
}

Ref<Backing> make_host_over(const Ref<Backing>& upstream) {
  return ZeroCache::make(BySize::make(host_mapped_above, upstream, upstream));
}

}  // namespace assay
