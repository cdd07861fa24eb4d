// What the tests of make_backing say of specs.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/backing/make_backing.hpp"

namespace assay {

struct Refusal {
  std::string spec;
  std::size_t column;
  const char* part;  ///< of the message
};

inline void expect_built(std::initializer_list<const char*> specs) {
  for (const char* spec : specs) {
    const auto backing = make_backing(spec);
    EXPECT_TRUE(backing.has_value()) << backing.error().describe();
  }
}

inline void expect_refused(std::initializer_list<Refusal> refusals) {
  for (const Refusal& refusal : refusals) {
    const auto backing = make_backing(refusal.spec);
    ASSERT_FALSE(backing.has_value()) << refusal.spec;
    EXPECT_EQ(backing.error().column, refusal.column) << backing.error().describe();
    EXPECT_THAT(backing.error().message, testing::HasSubstr(refusal.part));
  }
}

}  // namespace assay
