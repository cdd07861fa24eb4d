// What a result file may be, and how what is none is told.
#include <gtest/gtest.h>

#include <string>

#include "program/result_file.hpp"

namespace assay::conformance {
namespace {

std::string why(const std::string& text) {
  const auto result = parse_result(text);
  return result ? "" : result.error();
}

std::string file_of(const std::string& context, const std::string& tests) {
  return R"({"context":{"assay_schema":"assay.conformance/1")" + context + R"(},"tests":[)" +
         tests + "]}";
}

constexpr const char* one_test = R"({"id":"a.b","outcome":"pass","detail":"","observations":[]})";

TEST(ResultFile, AResultIsRead) {
  EXPECT_EQ(why(file_of("", one_test)), "");
}

TEST(ResultFile, WhatIsNotJsonIsToldWithItsPlace) {
  EXPECT_EQ(why("{\n\"context\": !}"), "not JSON: line 2 (byte 14) has '!}'");
  EXPECT_EQ(why("{\"context\": {"), "not JSON: it ends at byte 13, half way");
  EXPECT_EQ(why(""), "not JSON: it ends at byte 0, half way");
}

TEST(ResultFile, OtherJsonIsToldWithItsField) {
  EXPECT_NE(why("[]").find("'context'"), std::string::npos);
  EXPECT_NE(why(R"({"context":{"assay_schema":1},"tests":[]})").find("assay_schema"),
            std::string::npos);
  EXPECT_EQ(why(file_of(R"(,"driver":3)", one_test)), "context.driver is no text");
  EXPECT_EQ(why(file_of(R"(,"driver_version":"x")", one_test)),
            "context.driver_version is no whole number");
}

TEST(ResultFile, AnIdIsThereOnce) {
  EXPECT_EQ(why(file_of("", std::string(one_test) + "," + one_test)),
            "tests 1 and 2 are both 'a.b'");
}

TEST(ResultFile, ControlCharactersAreShown) {
  EXPECT_EQ(shown("a\x1b[1m\nb"), "a\\x1b[1m\\x0ab");
}

}  // namespace
}  // namespace assay::conformance
