// AddressSanitizer must stop this: a read of a freed block.
#include <cstdlib>

int main() {
  auto* const block = static_cast<volatile char*>(std::malloc(16));
  block[0] = 1;
  std::free(const_cast<char*>(block));
  return block[0];
}
