// LeakSanitizer must report this: a block that nothing points to at exit.
#include <cstdlib>

int main() {
  void* volatile block = std::malloc(1234);
  block = nullptr;
  return block == nullptr ? 0 : 1;
}
