// assay-bench-fixture: the base of the gate's own test.
#include "planted.hpp"

int main(int argc, char** argv) {
  return assay::bench::planted_main(argc, argv, false);
}
