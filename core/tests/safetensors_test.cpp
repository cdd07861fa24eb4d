#include "assay/harness/safetensors.hpp"

#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include "bytes_fixture.hpp"
#include "lazy_source.hpp"
#include "scratch_file.hpp"

namespace assay::harness {
namespace {

using test::CopyCount;

const std::string fixture = std::string(ASSAY_TEST_DATA) + "/tensors/burn-multi_layer.safetensors";

std::string fixture_text() {
  std::ifstream file(fixture, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string length_of(std::uint64_t length) {
  std::string text;
  for (int i = 0; i < 8; ++i) text.push_back(static_cast<char>(length >> (8 * i)));
  return text;
}

/// A file with that header and so many bytes of data, 0, 1, 2, ...
std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string file = length_of(header.size()) + header;
  for (std::size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<char>(i));
  return file;
}

std::expected<SafeTensors, InputError> opened(const std::string& file) {
  return read_safetensors(Bytes::from_text(file).value(), "model");
}

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

// --- what is read

TEST(SafeTensors, PublishedFileGivesEveryTensorWithoutACopy) {
  Bytes file = Bytes::from_text(fixture_text()).value();
  ASSERT_TRUE(file.shared().has_value());
  const CopyCount copies;
  const auto read = read_safetensors(file.clone().value(), fixture);
  ASSERT_TRUE(read.has_value()) << read.error().describe();
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(read->data_offset, 656u);
  ASSERT_EQ(read->tensors.size(), 9u);
  std::uint64_t at = read->data_offset;
  for (const Tensor& tensor : read->tensors) {
    EXPECT_EQ(tensor.offset, at) << tensor.name;
    EXPECT_EQ(tensor.data.data(), file.data() + at) << tensor.name;
    at += tensor.data.len();
  }
  EXPECT_EQ(at, file.len());
  EXPECT_EQ(read->tensors[0].name, "norm1.num_batches_tracked");
  EXPECT_EQ(read->tensors[0].type, TensorType::i64);
  EXPECT_TRUE(read->tensors[0].shape.empty());
  const Tensor* const weight = read->find("conv1.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->type, TensorType::f32);
  EXPECT_EQ(weight->shape, (std::vector<std::uint64_t>{4, 3, 3, 3}));
  EXPECT_EQ(weight->data.len(), 432u);
  EXPECT_EQ(read->find("conv2.weight"), nullptr);
}

/// Tensors at random, with what is legal and odd: scalars, no elements, names that need escapes.
struct Made {
  std::string name;
  TensorType type{};
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

std::vector<Made> any_tensors() {
  constexpr std::array bits = {
#define ASSAY_TENSOR_TYPE(name, text, bits, kind) std::pair(TensorType::name, std::uint64_t{bits}),
#include "assay/harness/tensor_types.def"
#undef ASSAY_TENSOR_TYPE
  };
  std::vector<Made> tensors;
  const auto count = *rc::gen::inRange<std::size_t>(0, 8);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [type, type_bits] = bits[*rc::gen::inRange<std::size_t>(0, bits.size())];
    Made made{.name = fmt::format("{}\"\\\n\u00e9{}", *rc::gen::inRange(0, 9), i),
              .type = type,
              .shape = *rc::gen::container<std::vector<std::uint64_t>>(
                  *rc::gen::inRange<std::size_t>(0, 4), rc::gen::inRange<std::uint64_t>(0, 5))};
    std::uint64_t all_bits = type_bits;
    for (const std::uint64_t extent : made.shape) all_bits *= extent;
    if (all_bits % 8 != 0) {  // elements of 4 and 6 bits come in fours
      made.shape.push_back(4);
      all_bits *= 4;
    }
    made.bytes = all_bits / 8;
    tensors.push_back(std::move(made));
  }
  return tensors;
}

RC_GTEST_PROP(SafeTensors, ReadsBackWhatWasWritten, ()) {
  const std::vector<Made> tensors = any_tensors();
  nlohmann::json header = nlohmann::json::object();  // sorts by name: not the order of the bytes
  std::uint64_t at = 0;
  for (const Made& tensor : tensors) {
    header[tensor.name] = {{"dtype", name_of(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + tensor.bytes}}};
    at += tensor.bytes;
  }
  header["__metadata__"] = {{"format", "pt"}, {"empty", ""}};
  const std::string padding(*rc::gen::inRange<std::size_t>(0, 8), ' ');
  const std::string text = header.dump() + padding;
  const std::string file = file_of(text, at);

  const auto read = opened(file);
  if (!read) RC_FAIL(read.error().describe());
  RC_ASSERT(read->metadata.size() == 2u);
  RC_ASSERT(read->metadata.at("format") == "pt");
  RC_ASSERT(read->tensors.size() == tensors.size());
  std::uint64_t offset = 8 + text.size();
  for (const Made& wanted : tensors) {
    const Tensor* const tensor = read->find(wanted.name);
    RC_ASSERT(tensor != nullptr);
    RC_ASSERT(tensor->type == wanted.type);
    RC_ASSERT(tensor->shape == wanted.shape);
    RC_ASSERT(tensor->data.len() == wanted.bytes);
    const auto* const first = reinterpret_cast<const char*>(tensor->data.data());
    RC_ASSERT(wanted.bytes == 0 || file.compare(offset, wanted.bytes, first, wanted.bytes) == 0);
    offset += wanted.bytes;
  }
}

TEST(SafeTensors, FieldsOfNoMeaningHereArePassedOver) {  // as upstream does
  const auto read =
      opened(file_of(R"({"a":{"x":[[{"dtype":1,"dtype":2}],3],"dtype":"U8","y":null,"shape":[2],)"
                     R"("z":{"shape":[9]},"data_offsets":[0,2],"s":"F32"}})",
                     2));
  ASSERT_TRUE(read.has_value()) << read.error().describe();
  EXPECT_EQ(read->tensors[0].shape, (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(read->tensors[0].type, TensorType::u8);
}

// --- elements

TEST(SafeTensors, AlignedElementsAreNotCopiedAndMisalignedOnesOnce) {
  const std::string tensor = R"({"a":{"dtype":"U16","shape":[3],"data_offsets":[0,6]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})";
  for (std::size_t padding = 0; padding < 8; ++padding) {
    const std::string header = tensor + std::string(padding, ' ');
    const auto read = opened(file_of(header, 8));
    ASSERT_TRUE(read.has_value()) << read.error().describe();
    const bool aligned = (8 + header.size()) % alignof(std::uint16_t) == 0;
    const auto elements = elements_of<std::uint16_t>(read->tensors[0]);
    ASSERT_TRUE(elements.has_value());
    EXPECT_EQ(elements.value().bytes_copied, aligned ? 0u : 6u);
    EXPECT_EQ(elements.value().elements.data() ==
                  reinterpret_cast<const std::uint16_t*>(read->tensors[0].data.data()),
              aligned);
    EXPECT_TRUE(std::ranges::equal(elements.value().elements,
                                   std::vector<std::uint16_t>{0x0100, 0x0302, 0x0504}));
    const auto octets = elements_of<std::uint8_t>(read->tensors[1]);
    ASSERT_TRUE(octets.has_value());
    EXPECT_EQ(octets.value().bytes_copied, 0u);
    EXPECT_TRUE(std::ranges::equal(octets.value().elements, std::vector<std::uint8_t>{6, 7}));
  }
}

TEST(SafeTensors, ElementsAreReadAsTheirOwnTypeOrAsBits) {
  EXPECT_TRUE(holds<float>(TensorType::f32));
  EXPECT_TRUE(holds<std::uint32_t>(TensorType::f32));
  EXPECT_FALSE(holds<std::int32_t>(TensorType::f32));
  EXPECT_FALSE(holds<double>(TensorType::f32));
  EXPECT_FALSE(holds<float>(TensorType::i32));
  EXPECT_TRUE(holds<std::int64_t>(TensorType::i64));
  EXPECT_FALSE(holds<std::int64_t>(TensorType::u64));
  EXPECT_TRUE(holds<std::uint16_t>(TensorType::bf16));
  EXPECT_FALSE(holds<std::int16_t>(TensorType::bf16));
  EXPECT_TRUE(holds<std::byte>(TensorType::boolean));
  EXPECT_TRUE(holds<std::uint8_t>(TensorType::f4));
  const auto read = opened(fixture_text());
  ASSERT_TRUE(read.has_value());
  const auto refused = elements_of<double>(*read->find("conv1.weight"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(std::string(refused.error().native_text), "F32");
}

// --- files

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(SafeTensors, LazyFileIsReadForItsHeaderAndThenTensorByTensor) {
  const auto backing = test::CheckingBacking::make();
  const auto home = Home::make(backing).value();
  const std::string text = fixture_text();
  const CopyCount copies;
  const SourceReads start = source_reads();
  {
    const auto read = open_safetensors(fixture, FileReading::lazy, *home);
    ASSERT_TRUE(read.has_value()) << read.error().describe();
    EXPECT_EQ(source_reads().bytes - start.bytes, read->data_offset);
    EXPECT_EQ(source_reads().calls - start.calls, 2u);
    EXPECT_EQ(backing->calls, 0u);
    std::uint64_t bytes = read->data_offset;
    for (const Tensor& tensor : read->tensors) {
      EXPECT_FALSE(tensor.data.is_resident()) << tensor.name;
      const auto octets = elements_of<std::uint32_t>(tensor);
      if (tensor.type != TensorType::f32) {
        EXPECT_FALSE(octets.has_value());
        continue;
      }
      ASSERT_TRUE(octets.has_value()) << describe(octets.error());
      EXPECT_EQ(octets.value().bytes_copied, 0u) << "a mirror is aligned";
      bytes += tensor.data.len();
      EXPECT_EQ(source_reads().bytes - start.bytes, bytes) << "no more than the tensor";
      EXPECT_EQ(0,
                text.compare(tensor.offset, tensor.data.len(),
                             reinterpret_cast<const char*>(tensor.data.data()), tensor.data.len()));
    }
    EXPECT_EQ(bytes, text.size() - 8) << "all but the one that is no F32";
  }
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(backing->usage().live_blocks, 0u);
}

TEST(SafeTensors, MappedFileIsNeitherReadNorCopiedWhereItIsAligned) {
  const CopyCount copies;
  const SourceReads start = source_reads();
  const auto read = open_safetensors(fixture, FileReading::mapped);
  ASSERT_TRUE(read.has_value()) << read.error().describe();
  const auto weight = elements_of<float>(*read->find("fc1.weight"));
  ASSERT_TRUE(weight.has_value());
  EXPECT_EQ(weight.value().elements.size(), 4096u);
  EXPECT_EQ(weight.value().bytes_copied, 0u);
  const auto batches = elements_of<std::int64_t>(*read->find("norm1.num_batches_tracked"));
  ASSERT_TRUE(batches.has_value());
  EXPECT_EQ(batches.value().elements.size(), 1u);
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(source_reads(), start);
}

TEST(SafeTensors, TensorsOutliveWhatOpenedThem) {
  for (const FileReading how : {FileReading::lazy, FileReading::mapped}) {
    Bytes data;
    {
      auto read = open_safetensors(fixture, how);
      ASSERT_TRUE(read.has_value());
      data = std::move(read->tensors[2].data);
    }
    ASSERT_TRUE(data.read().has_value());
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(data.data()), data.len()),
              fixture_text().substr(656 + 24, 432));
  }
}

TEST(SafeTensors, FilesThatAreNotThereOrCutOffSaySo) {
  const auto missing = open_safetensors("/no/such.safetensors");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().file, "/no/such.safetensors");
  EXPECT_NE(missing.error().describe().find("No such file"), std::string::npos);
  for (const FileReading how : {FileReading::lazy, FileReading::mapped}) {
    const test::ScratchFile cut(bytes_of(fixture_text().substr(0, 10'000)));
    const auto refused = open_safetensors(cut.path(), how);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(R"(tensors["fc1.weight"].data_offsets[1] is 16904)"),
              std::string::npos)
        << refused.error().message;
    const test::ScratchFile none(std::vector<std::byte>{});
    EXPECT_FALSE(open_safetensors(none.path(), how).has_value());
  }
}

TEST(SafeTensors, AFileThatChangesAfterItWasOpenedIsAnErrorNotASignal) {
  for (const FileReading how : {FileReading::lazy, FileReading::mapped}) {
    const test::ScratchFile file(bytes_of(fixture_text()));
    const auto read = open_safetensors(file.path(), how);
    ASSERT_TRUE(read.has_value()) << read.error().describe();
    file.resize(700);
    const auto elements = elements_of<float>(*read->find("norm1.weight"));
    ASSERT_FALSE(elements.has_value());
    EXPECT_EQ(elements.error().code, ErrorCode::source_changed);
  }
}

TEST(SafeTensors, AFailingReadOfTheHeaderIsToldAndLeavesNothing) {
  for (const std::uint64_t nth : {1u, 2u}) {
    const auto source = test::LazySource::make(bytes_of(fixture_text()));
    source->fail_nth(nth);
    const auto refused = read_safetensors(test::lazy_bytes(source), "model");
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().describe().find("read_failed on lazy_source"), std::string::npos)
        << refused.error().describe();
    EXPECT_EQ(source->releases(), 1u);
  }
}

// --- what is refused; fault:B-52

TEST(SafeTensors, HeaderLengthsThatAreNotSo) {
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

TEST(SafeTensors, FilesCutOffAnywhereAreRefused) {
  const std::string good = fixture_text();
  for (std::size_t size = 0; size < good.size(); size += size < 700 ? 1 : 997) {
    EXPECT_FALSE(opened(good.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(opened(good.substr(0, good.size() - 1)).has_value());
  EXPECT_EQ(why_refused(good + "x"),
            "model: data_offsets: the tensors end at byte 16968 of the data, but the file has 1 "
            "bytes more");
}

TEST(SafeTensors, HeadersThatAreNoHeaders) {
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

TEST(SafeTensors, NestingCostsNoStack) {
  const std::string deep(5'000'000, '[');
  EXPECT_EQ(why_refused(file_of(R"({"a":{"x":)" + deep, 0)),
            R"(model: tensors["a"] is nested more than 16 deep)");
  EXPECT_EQ(why_refused(file_of(R"({"a":)" + deep, 0)),
            R"(model: tensors["a"] is an array; it must be an object of dtype, shape and )"
            R"(data_offsets)");
}

TEST(SafeTensors, NamesThatStandTwice) {
  const std::string one = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string two = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]})";
  EXPECT_EQ(why_refused(file_of("{" + one + "," + two + "}", 8)),
            R"(model: tensors["a"] stands twice)");
  EXPECT_EQ(why_refused_tensor(R"("dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8])"),
            R"(model: tensors["a"].dtype stands twice)");
}

TEST(SafeTensors, FieldsThatAreMissingOrOfAnotherType) {
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

TEST(SafeTensors, NumbersThatAreNone) {
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

TEST(SafeTensors, RangesThatAreNotSo) {
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

TEST(SafeTensors, TensorsThatOverlapOrLeaveHoles) {
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
RC_GTEST_PROP(SafeTensors, DamageIsRefusedOrHarmless, ()) {
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
