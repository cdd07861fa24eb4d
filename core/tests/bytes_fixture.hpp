// What the tests of Bytes share: values to start from, a copy counter, a watched home.
#pragma once

#include <gtest/gtest.h>

#include "assay/buffer/bytes.hpp"
#include "checking_backing.hpp"

namespace assay::test {

inline Bytes made(std::size_t size, unsigned first = 1, Home& home = Home::host()) {
  return Bytes::from_span(counting(size, first), home).value();
}

inline std::vector<std::byte> content(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// Payload bytes copied on this thread since it was made.
class CopyCount {
 public:
  [[nodiscard]] std::uint64_t so_far() const { return payload_bytes_copied() - start_; }

 private:
  std::uint64_t start_ = payload_bytes_copied();
};

/// A checking backing and a home on it; at the end everything has come back in order.
class OnChecking : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(backing_->usage().live_blocks, 0u);
    EXPECT_TRUE(backing_->faults.empty()) << backing_->faults.front();
  }
  const Ref<CheckingBacking> backing_ = CheckingBacking::make();
  const Ref<Home> home_ = Home::make(backing_).value();
};

}  // namespace assay::test
