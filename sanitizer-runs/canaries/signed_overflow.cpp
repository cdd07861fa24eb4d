// UndefinedBehaviorSanitizer must stop this: a signed sum that overflows.
#include <climits>

int main(int count, char**) {
  volatile int sum = INT_MAX;
  sum = sum + count;
  return sum == 0 ? 1 : 0;
}
