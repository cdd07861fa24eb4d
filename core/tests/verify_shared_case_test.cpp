#include <gtest/gtest.h>

#include "assay/harness/executor_ops.hpp"
#include "assay/harness/shared_case.hpp"

namespace assay::harness {
namespace {

// The layout is a contract between programs that are built apart: a change must be seen here, and
// shared_case_version raised with it.
TEST(SharedCase, LayoutIsFixed) {
  EXPECT_EQ(shared_case_version, 3u);
  EXPECT_EQ(offsetof(SharedCase, magic), 0u);
  EXPECT_EQ(offsetof(SharedCase, version), 4u);
  EXPECT_EQ(offsetof(SharedCase, size), 8u);
  EXPECT_EQ(offsetof(SharedCase, facts), 16u);
  EXPECT_EQ(sizeof(ChildFacts), 10 * 4 + 8 + 256 + 64 + 256u);
  EXPECT_EQ(sizeof(CaseSettings), 32u);
  EXPECT_EQ(offsetof(Command, slot), 2u);
  EXPECT_EQ(offsetof(Command, size), 8u);
  EXPECT_EQ(offsetof(Command, alignment), 16u);
  EXPECT_EQ(offsetof(Outcome, address), 8u);
  EXPECT_EQ(offsetof(Outcome, bad_offset), 24u);
  EXPECT_EQ(sizeof(Finding), 24u);
  EXPECT_EQ(offsetof(SharedCase, outcomes) - offsetof(SharedCase, commands),
            command_limit * sizeof(Command));
}

TEST(SharedCase, OperationsTableStartsWithItsVersionAndSize) {
  EXPECT_EQ(offsetof(assay_ops, abi), 0u);
  EXPECT_EQ(offsetof(assay_ops, size), 4u);
  EXPECT_EQ(sizeof(assay_ops), 80u);
  EXPECT_EQ(sizeof(assay_request), 32u);
  EXPECT_EQ(sizeof(assay_block), 16u);
}

}  // namespace
}  // namespace assay::harness
