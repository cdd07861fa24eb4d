#include "rows.hpp"

#include <set>

#include <gtest/gtest.h>

namespace assay::bench {
namespace {

std::vector<Row> every_row(Scope scope) {
  const Offer offer{.subjects = harness::subjects(), .families = families()};
  return rows_of(offer, offer.subjects, scope);
}

TEST(Rows, AreNamedAfterFamilySubjectAndSize) {
  const auto rows = every_row(Scope::standard);
  std::set<std::string> names;
  std::set<std::pair<std::size_t, std::size_t>> indices;
  for (const Row& row : rows) {
    names.insert(row.name);
    indices.emplace(row.family_index, row.instance_index);
  }
  EXPECT_EQ(names.size(), rows.size());
  EXPECT_EQ(indices.size(), rows.size());
  EXPECT_TRUE(names.contains("allocate_free/backing:heap/size:16"));
  EXPECT_TRUE(names.contains("allocate_free_batch/backing:malloc/size:1048576"));
  EXPECT_TRUE(names.contains("first_touch/backing:heap/size:67108864"));
  EXPECT_FALSE(names.contains("first_touch/backing:heap/size:268435456"));
}

TEST(Rows, FullScopeHoldsEveryStandardRowAndMore) {
  std::set<std::string> full;
  for (const Row& row : every_row(Scope::full)) full.insert(row.name);
  for (const Row& row : every_row(Scope::standard)) EXPECT_TRUE(full.contains(row.name));
  EXPECT_TRUE(full.contains("first_touch/backing:heap/size:268435456"));
  EXPECT_TRUE(full.contains("allocate_free/backing:heap/size:32"));
}

TEST(RowFilter, IsReadAsTheBenchmarkLibraryDoes) {
  const auto matches = [](const std::string& expression, const std::string& name) {
    std::string why;
    return RowFilter::make(expression, why).value().matches(name);
  };
  EXPECT_TRUE(matches("", "a/b"));
  EXPECT_TRUE(matches("all", "a/b"));
  EXPECT_TRUE(matches("^(a|x)/b+$", "a/bb"));
  EXPECT_FALSE(matches("^a/b$", "a/bb"));
  EXPECT_FALSE(matches("-^a", "a/b"));
  EXPECT_TRUE(matches("-^x", "a/b"));
  std::string why;
  EXPECT_EQ(RowFilter::make("(", why).error().code, ErrorCode::parse);
  EXPECT_FALSE(why.empty());
}

TEST(Rows, KnowWhetherALibraryIsInstalled) {
  harness::Subject subject;
  EXPECT_TRUE(is_present(subject));
  subject.preload = "libassay-no-such-library.so.1";
  EXPECT_FALSE(is_present(subject));
}

}  // namespace
}  // namespace assay::bench
