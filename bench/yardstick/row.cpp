#include "row.hpp"

#include <fmt/format.h>

namespace assay::yardstick {

std::string id_of(const Row& row) {
  if (row.size == 0) return std::string(row.name);
  return fmt::format("{}/size:{}", row.name, row.size);
}

}  // namespace assay::yardstick
