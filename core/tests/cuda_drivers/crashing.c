/* A shared library that ends the program that opens it. */
#include <stdlib.h>

__attribute__((constructor)) static void crash(void) {
  abort();
}
