#include "assay/harness/safetensors.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include "bytes_fixture.hpp"
#include "lazy_source.hpp"
#include "safetensors_file.hpp"
#include "scratch_file.hpp"

namespace assay::harness {
namespace {

using test::CopyCount;

using test::file_of;
using test::fixture;
using test::fixture_text;
using test::opened;

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

}  // namespace
}  // namespace assay::harness
