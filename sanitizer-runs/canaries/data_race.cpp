// ThreadSanitizer must report this: two threads write one variable without order.
#include <thread>

namespace {

volatile int shared = 0;  // volatile, so that no write is dead to the optimiser

void count() {
  for (int i = 0; i < 10000; ++i) shared = shared + 1;
}

}  // namespace

int main() {
  std::thread other(count);
  count();
  other.join();
  return 0;
}
