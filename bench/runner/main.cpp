// assay-bench: every registered subject, every family.
#include "program.hpp"

int main(int argc, char** argv) {
  return assay::bench::bench_main(
      argc, argv, {.subjects = assay::harness::subjects(), .families = assay::bench::families()});
}
