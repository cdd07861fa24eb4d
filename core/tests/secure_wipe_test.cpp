// The wipe itself: a store into memory that dies is one that an optimiser likes to drop.
#include "assay/base/secure_wipe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

namespace assay {
namespace {

/// Wipes itself at its end, after which nobody may look at it: to a compiler, a dead store.
class Secret {
 public:
  Secret() { bytes_.fill(std::byte{0x5a}); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret() { secure_wipe(bytes_.data(), bytes_.size()); }
  [[nodiscard]] std::byte last() const { return bytes_.back(); }

 private:
  std::array<std::byte, 64> bytes_;
};

/// Out of the compiler's sight of who wrote the bytes.
[[gnu::noinline]] std::ptrdiff_t zeros_in(std::byte* bytes, std::size_t size) {
  return std::count(bytes, bytes + size, std::byte{0});
}

// fault:B-18. The storage outlives the object, so what is left in it can be looked at.
TEST(SecureWipe, ADyingObjectIsWipedWhateverTheOptimiserThinks) {
  alignas(Secret) std::array<std::byte, sizeof(Secret)> storage;
  auto* const secret = new (storage.data()) Secret;
  EXPECT_EQ(secret->last(), std::byte{0x5a});
  std::destroy_at(secret);
  EXPECT_EQ(zeros_in(storage.data(), storage.size()), 64);
}

TEST(SecureWipe, FillsExactlyWhatItIsTold) {
  std::array<std::byte, 16> bytes{};
  durable_fill(bytes.data() + 4, 8, 0x77);
  durable_fill(bytes.data(), 0, 0x11);
  EXPECT_EQ(std::count(bytes.begin() + 4, bytes.begin() + 12, std::byte{0x77}), 8);
  EXPECT_EQ(std::ranges::count(bytes, std::byte{0}), 8);
}

}  // namespace
}  // namespace assay
