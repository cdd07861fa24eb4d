// ThreadSanitizer must report this: two threads write one variable without order.
#include <thread>

namespace {
int shared = 0;
}

int main() {
  std::thread other([] { shared = 1; });
  shared = 2;
  other.join();
  return shared == 3 ? 1 : 0;  // a read, so that the writes are not dead
}
