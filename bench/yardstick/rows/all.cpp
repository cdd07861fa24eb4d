// Every row, group by group.
#include <vector>

#include "../row.hpp"

namespace assay::yardstick {

#define YARDSTICK_ROWS(function) std::span<const Row> function();
#include "manifest.def"
#undef YARDSTICK_ROWS

std::span<const Row> all_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (const auto group : {
#define YARDSTICK_ROWS(function) function(),
#include "manifest.def"
#undef YARDSTICK_ROWS
         }) {
      all.insert(all.end(), group.begin(), group.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace assay::yardstick
