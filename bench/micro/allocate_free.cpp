#include "allocate_free.hpp"

namespace assay::bench::family_list {

const Family& allocate_free() {
  static constexpr Family family = family_of<AllocateFree>();
  return family;
}

}  // namespace assay::bench::family_list
