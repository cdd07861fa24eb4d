/* A shared library that is no driver. */
int assay_test_nothing(void);
int assay_test_nothing(void) {
  return 1;
}
