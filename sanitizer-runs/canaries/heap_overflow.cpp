// AddressSanitizer must stop this: a write one byte past a heap block.
#include <cstdlib>

int main() {
  auto* const block = static_cast<volatile char*>(std::malloc(16));
  block[16] = 1;
  std::free(const_cast<char*>(block));
  return 0;
}
