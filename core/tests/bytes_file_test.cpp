// Bytes of files: read on demand, or mapped. The sources themselves: file_source_test.cpp.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bytes_fixture.hpp"

namespace assay {
namespace {

using test::content;
using test::CopyCount;
using test::counting;

class BytesFile : public test::OnChecking {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "assay-bytes-" + std::to_string(getpid()) + "-" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    write(counting(10'000));
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    OnChecking::TearDown();
  }
  void write(const std::vector<std::byte>& bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  Bytes file(FileRegion region = {}) {
    return Bytes::from_file(path_.c_str(), region, *home_).value();
  }
  Bytes mapped(FileRegion region = {}) {
    return Bytes::map_file(path_.c_str(), region, *home_).value();
  }

  std::string path_;
};

TEST_F(BytesFile, AWindowIsReadOnceAndWhenNeeded) {
  Bytes bytes = file({.offset = 100, .size = 50});
  const SourceReads before = source_reads();
  EXPECT_EQ(bytes.len(), 50u);
  EXPECT_EQ(bytes.property(), AllocationProperty::file);
  EXPECT_EQ(bytes.path(), path_);
  const Bytes view = bytes.view(0, 10).value();
  EXPECT_EQ(view.path(), path_);
  EXPECT_EQ(source_reads(), before);
  ASSERT_TRUE(bytes.read().has_value());
  const auto all = counting(10'000);
  EXPECT_EQ(content(bytes), std::vector(all.begin() + 100, all.begin() + 150));
  EXPECT_EQ(source_reads().bytes - before.bytes, 50u);
  EXPECT_EQ(bytes, Bytes::from_span(std::span(all).subspan(100, 50)).value());
}

TEST_F(BytesFile, WhatIsWrongIsToldWhenItIsOpened) {
  EXPECT_EQ(Bytes::from_file("/nonexistent/file").error().code, ErrorCode::io);
  EXPECT_EQ(Bytes::from_file(path_.c_str(), {.offset = 10'001}).error().code,
            ErrorCode::out_of_range);
  EXPECT_EQ(Bytes::map_file(path_.c_str(), {.offset = 1, .size = 10'000}).error().code,
            ErrorCode::out_of_range);
  EXPECT_TRUE(file({.offset = 10'000}).is_empty());
  EXPECT_TRUE(mapped({.offset = 5, .size = 0}).is_empty());
}

TEST_F(BytesFile, AChangeIsAnErrorOfEveryReadAndNeverMixedContent) {  // bytes:W-15
  Bytes bytes = file();
  const Bytes early = bytes.view(0, 100).value();
  ASSERT_TRUE(early.read().has_value());
  std::filesystem::resize_file(path_, 5000);
  EXPECT_EQ(bytes.read().error().code, ErrorCode::source_changed);
  EXPECT_EQ(bytes.write().error().code, ErrorCode::source_changed);
  EXPECT_EQ(bytes.view(0, 10).value().read().error().code, ErrorCode::source_changed);
  EXPECT_EQ(early.read().value().size(), 100u) << "what was read stays";
}

TEST_F(BytesFile, APathThatIsReplacedKeepsTheFileThatWasOpened) {  // bytes:W-15
  const Bytes bytes = file();
  const Bytes clone = bytes.clone().value();
  ASSERT_TRUE(clone.view(0, 1).value().read().has_value());
  const std::string other = path_ + ".new";
  std::filesystem::rename(path_, other);
  write(counting(10'000, 77));
  EXPECT_EQ(bytes.read().value()[0], counting(1)[0]);
  EXPECT_TRUE(bytes.equals(clone).value());
  std::filesystem::remove(other);
}

TEST_F(BytesFile, AMappingIsSharedImmutableAndCopiesNothing) {
  const CopyCount copies;
  Bytes bytes = mapped({.offset = 3, .size = 9000});
  EXPECT_TRUE(bytes.is_shared());
  EXPECT_TRUE(bytes.is_resident());
  EXPECT_EQ(bytes.property(), AllocationProperty::file);
  EXPECT_EQ(bytes.path(), path_);
  EXPECT_EQ(bytes.align(), 1u);
  Bytes right = bytes.split(4000).value();
  EXPECT_EQ(right.read(Reader::no_copy()).value()[0], counting(10'000)[4003]);
  EXPECT_EQ(copies.so_far(), 0u);
  EXPECT_EQ(right.write(Writer::no_copy()).error().code, ErrorCode::would_copy);
  right.write().value()[0] = std::byte{0};
  EXPECT_EQ(copies.so_far(), 5000u);
  EXPECT_EQ(right.property(), AllocationProperty::native);
  EXPECT_EQ(bytes.path(), path_);
}

TEST_F(BytesFile, AMappingThatIsCutShortIsAnErrorAndNotASignal) {
  const Bytes bytes = mapped();
  const Bytes view = bytes.view(9000, 9100).value();
  ASSERT_TRUE(view.read().has_value());
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(view.read().error().code, ErrorCode::source_changed);
  EXPECT_EQ(bytes.hash().error().code, ErrorCode::source_changed);
  Bytes clone = view.clone().value();
  EXPECT_EQ(clone.write().error().code, ErrorCode::source_changed) << "no fork of torn bytes";
  EXPECT_TRUE(clone.is_shared());
  std::vector<std::byte> to(10);
  EXPECT_EQ(view.copy_into(to).error().code, ErrorCode::source_changed);
  (void)view.span()[99];  // zero, or what was read before
}

}  // namespace
}  // namespace assay
