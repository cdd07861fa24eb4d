#include "allocate_free_batch.hpp"

namespace assay::bench::family_list {

const Family& allocate_free_batch() {
  static constexpr Family family = family_of<AllocateFreeBatch>();
  return family;
}

}  // namespace assay::bench::family_list
