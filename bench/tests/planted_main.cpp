// assay-bench-planted: the head of the gate's own test, with one slower row.
#include "planted.hpp"

int main(int argc, char** argv) {
  return assay::bench::planted_main(argc, argv, true);
}
