// assay-yardstick: every row.
#include "program.hpp"

int main(int argc, char** argv) {
  return assay::yardstick::yardstick_main(argc, argv, assay::yardstick::all_rows());
}
