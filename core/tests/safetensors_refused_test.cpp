// Safetensors files that are refused, each by the name of the field that is not so.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "bytes_fixture.hpp"
#include "safetensors_file.hpp"

namespace assay::harness {
namespace {

using test::file_of;
using test::fixture_text;
using test::length_of;
using test::opened;

/// The one line with which it is refused; no view of the file is left.
std::string why_refused(const std::string& file) {
  const auto backing = test::CheckingBacking::make();
  const auto home = Home::make(backing).value();
  const auto refused = read_safetensors(Bytes::from_text(file, *home).value(), "model");
  EXPECT_FALSE(refused.has_value()) << file;
  EXPECT_EQ(backing->usage().live_blocks, 0u);
  return refused ? "" : refused.error().describe();
}

/// As above for a file of one tensor `a` with these fields and eight bytes of data.
std::string why_refused_tensor(const std::string& fields) {
  return why_refused(file_of("{\"a\":{" + fields + "}}", 8));
}

// fault:B-52

TEST(SafeTensorsRefused, HeaderLengthsThatAreNotSo) {
  const std::string good = fixture_text();
  const std::string rest = good.substr(8);
  EXPECT_EQ(why_refused(length_of(0) + rest),
            "model: header length is 0; the shortest header is '{}'");
  EXPECT_EQ(why_refused(length_of(good.size()) + rest),
            "model: header length is 17624, but the file has only 17616 bytes more; if it is cut "
            "off, fetch it again");
  EXPECT_EQ(why_refused(length_of(std::uint64_t{1} << 63) + rest),
            "model: header length is 9223372036854775808, above the limit of 100000000; is it a "
            "safetensors file?");
  EXPECT_NE(why_refused(length_of(UINT64_MAX) + rest).find("header length is 184467"),
            std::string::npos);
  EXPECT_NE(why_refused(length_of(UINT64_MAX - 7) + rest).find("header length is 184467"),
            std::string::npos);
  EXPECT_NE(why_refused(length_of(100'000'001) + rest).find("above the limit"), std::string::npos);
  EXPECT_EQ(why_refused("1234567"),
            "model: header length: the file has 7 bytes, the length alone takes 8; it is cut off "
            "or no safetensors file");
  EXPECT_NE(why_refused(""), "");
}

TEST(SafeTensorsRefused, FilesCutOffAnywhereAreRefused) {
  const std::string good = fixture_text();
  for (std::size_t size = 0; size < good.size(); size += size < 700 ? 1 : 997) {
    EXPECT_FALSE(opened(good.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(opened(good.substr(0, good.size() - 1)).has_value());
  EXPECT_EQ(why_refused(good + "x"),
            "model: data_offsets: the tensors end at byte 16968 of the data, but the file has 1 "
            "bytes more");
}

TEST(SafeTensorsRefused, HeadersThatAreNoHeaders) {
  const auto why = [](const std::string& header) { return why_refused(file_of(header, 0)); };
  EXPECT_EQ(why("[]"), "model: header begins with '['; it must begin with '{'");
  EXPECT_EQ(why(" {}"), "model: header begins with ' '; it must begin with '{'");
  EXPECT_EQ(why("\xef\xbb\xbf{}"), "model: header begins with '\\xef'; it must begin with '{'");
  EXPECT_EQ(why("{}{}"), "model: header: not JSON at its byte 3, after '{}{'");
  EXPECT_EQ(why("{"), "model: header: not JSON at its byte 2, after '{'");
  EXPECT_EQ(why(std::string("{}\0 {", 5)), "model: header: a zero at its byte 2");
  EXPECT_NE(why("{\"\xff\":{}}").find("not JSON at its byte 3"), std::string::npos);
  EXPECT_EQ(why(R"({"a":3})"),
            R"(model: tensors["a"] is 3; it must be an object of dtype, shape and data_offsets)");
  EXPECT_EQ(why(R"({"a":["F32",[],[0,4]]})"),
            R"(model: tensors["a"] is an array; it must be an object of dtype, shape and )"
            R"(data_offsets)");
  EXPECT_EQ(why(R"({"__metadata__":null})"),
            "model: __metadata__ is null; it must be an object of strings");
  EXPECT_EQ(why(R"({"__metadata__":{"k":{}}})"),
            R"(model: __metadata__["k"] is an object; it must be a string)");
  EXPECT_EQ(why(R"({"__metadata__":{"k":1.5}})"),
            R"(model: __metadata__["k"] is 1.5; it must be a string)");
  EXPECT_EQ(why(R"({"__metadata__":{"k":"1","k":"1"}})"),
            R"(model: __metadata__["k"] stands twice)");
  EXPECT_EQ(why(R"({"__metadata__":{},"__metadata__":{}})"), "model: __metadata__ stands twice");
}

TEST(SafeTensorsRefused, NestingCostsNoStack) {
  const std::string deep(5'000'000, '[');
  EXPECT_EQ(why_refused(file_of(R"({"a":{"x":)" + deep, 0)),
            R"(model: tensors["a"] is nested more than 16 deep)");
  EXPECT_EQ(why_refused(file_of(R"({"a":)" + deep, 0)),
            R"(model: tensors["a"] is an array; it must be an object of dtype, shape and )"
            R"(data_offsets)");
}

TEST(SafeTensorsRefused, NamesThatStandTwice) {
  const std::string one = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string two = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})";
  EXPECT_EQ(why_refused(file_of("{" + one + "," + two + "}", 8)),
            R"(model: tensors["a"] stands twice)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8])"),
            R"(model: tensors["a"].dtype stands twice)");
}

TEST(SafeTensorsRefused, FieldsThatAreMissingOrOfAnotherType) {
  EXPECT_EQ(why_refused_tensor(R"("shape":[8],"data_offsets":[0,8])"),
            R"(model: tensors["a"].dtype is missing)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","data_offsets":[0,8])"),
            R"(model: tensors["a"].shape is missing)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","shape":[8])"),
            R"(model: tensors["a"].data_offsets is missing)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"F128","shape":[8],"data_offsets":[0,8])"),
            R"(model: tensors["a"].dtype is 'F128', which is no type of safetensors)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":8,"shape":[8],"data_offsets":[0,8])"),
            R"(model: tensors["a"].dtype is 8; it must be a string such as 'F32')");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","shape":8,"data_offsets":[0,8])"),
            R"(model: tensors["a"].shape is 8; it must be an array of whole numbers)");
  EXPECT_EQ(
      why_refused_tensor(R"("dtype":"U8","shape":[8],"data_offsets":"0-8")"),
      R"(model: tensors["a"].data_offsets is '0-8'; it must be an array of two whole numbers)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[8])"),
            R"(model: tensors["a"].data_offsets has 1 numbers; it must be [begin, end])");
  EXPECT_EQ(
      why_refused_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,8,9])"),
      R"(model: tensors["a"].data_offsets[2] is 9; it must be one of two whole numbers below )"
      R"(2^64)");
}

TEST(SafeTensorsRefused, NumbersThatAreNone) {
  for (const std::string number :
       {"-1", "8.0", "1e1", "18446744073709551616", "\"8\"", "null", "true", "[8]", "{}", "-0"}) {
    EXPECT_NE(
        why_refused_tensor(R"("dtype":"U8","shape":[2,)" + number + R"(],"data_offsets":[0,8])")
            .find(R"(model: tensors["a"].shape[1] is )"),
        std::string::npos)
        << number;
    EXPECT_NE(why_refused_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[0,)" + number + "]")
                  .find(R"(model: tensors["a"].data_offsets[1] is )"),
              std::string::npos)
        << number;
  }
}

TEST(SafeTensorsRefused, RangesThatAreNotSo) {
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","shape":[8],"data_offsets":[8,0])"),
            R"(model: tensors["a"].data_offsets is [8, 0]: it ends before it begins)");
  EXPECT_EQ(
      why_refused_tensor(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"),
      R"(model: tensors["a"].data_offsets[1] is 9, past the 8 bytes that the file has behind )"
      R"(its header; if it is cut off, fetch it again)");
  EXPECT_NE(why_refused_tensor(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,)"
                               R"(18446744073709551615])")
                .find("data_offsets[1] is 18446744073709551615, past"),
            std::string::npos);
  EXPECT_EQ(
      why_refused_tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
      R"(model: tensors["a"].shape and dtype F32 make 12 bytes, but data_offsets [0, 8] hold 8)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,8])"),
            R"(model: tensors["a"].shape and dtype F4 make 12 bits, not whole bytes)");
  // fault:B-53: products that wrap to what the range holds
  for (const std::string shape : {"[4294967296,4294967296]", "[9223372036854775808,2,0]",
                                  "[2305843009213693953]", "[4,1073741823,1073741825,4,4,4]"}) {
    EXPECT_NE(why_refused_tensor(R"("dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,8])")
                  .find(R"(model: tensors["a"].shape has more elements of U8 than 64 bits count)"),
              std::string::npos)
        << shape;
  }
}

TEST(SafeTensorsRefused, TensorsThatOverlapOrLeaveHoles) {
  const auto why = [](const std::string& a, const std::string& b) {
    const std::string tensor = R"({"dtype":"U8","shape":[4],"data_offsets":)";
    return why_refused(file_of(R"({"a":)" + tensor + a + R"(},"b":)" + tensor + b + "}}", 10));
  };
  EXPECT_EQ(why("[0,4]", "[3,7]"),
            R"(model: tensors["b"].data_offsets[0] is 3, inside tensors["a"] (bytes 0 to 4))");
  EXPECT_EQ(why("[0,4]", "[0,4]"),
            R"(model: tensors["b"].data_offsets[0] is 0, inside tensors["a"] (bytes 0 to 4))");
  EXPECT_EQ(why("[6,10]", "[0,4]"),
            R"(model: tensors["a"].data_offsets[0] is 6, but bytes 4 to 6 belong to no tensor)");
  EXPECT_EQ(why("[1,5]", "[5,9]"),
            R"(model: tensors["a"].data_offsets[0] is 1, but bytes 0 to 1 belong to no tensor)");
  EXPECT_EQ(why("[0,4]", "[4,8]"),
            "model: data_offsets: the tensors end at byte 8 of the data, but the file has 2 bytes "
            "more");
}

/// A header damaged at random is refused, or what it says is true of the file.
RC_GTEST_PROP(SafeTensorsRefused, DamageIsRefusedOrHarmless, ()) {
  std::string file = fixture_text();
  const auto count = *rc::gen::inRange<std::size_t>(1, 5);
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = *rc::gen::inRange<std::size_t>(0, 656);
    file[place] = *rc::gen::element('0', '1', '9', '[', ']', '{', '}', '"', ',', ':', ' ', '-', '.',
                                    '\0', '\x7f', '\xc3', 'e', 'F', 'U', '8');
  }
  const auto read = opened(file);
  if (!read) {
    RC_ASSERT(read.error().describe().find('\n') == std::string::npos);
    return;
  }
  std::uint64_t at = read->data_offset;
  for (const Tensor& tensor : read->tensors) {
    RC_ASSERT(tensor.offset == at);
    at += tensor.data.len();
  }
  RC_ASSERT(at == file.size());
}

}  // namespace
}  // namespace assay::harness
