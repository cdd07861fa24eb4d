// What the tests of files as sources share: opening them, looking at them, changing them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "assay/backing/mapped_file.hpp"
#include "scratch_file.hpp"

namespace assay::test {

using Content = std::vector<std::byte>;

inline Content part(const Content& of, std::size_t offset, std::size_t size) {
  const auto begin = of.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

inline Ref<File> opened(const ScratchFile& scratch, FileRegion region = {}) {
  auto file = File::open(scratch.path(), region);
  EXPECT_TRUE(file.has_value()) << describe(file.error());
  return std::move(file).value();
}

inline Ref<MappedFile> mapped(const char* path, FileRegion region = {}) {
  auto file = MappedFile::open(path, region);
  EXPECT_TRUE(file.has_value()) << describe(file.error());
  return std::move(file).value();
}

inline Block block_of(const MappedFile& file) {
  return {reinterpret_cast<std::uintptr_t>(file.memory().data()), file.memory().size()};
}

/// A look that the compiler cannot leave out.
inline std::byte look(const std::byte& at) {
  return *static_cast<const volatile std::byte*>(&at);
}

inline bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

inline bool changed(MappedFile& file) {
  const auto answer = file.verify(block_of(file));
  return !answer.has_value() && answer.error().code == ErrorCode::source_changed;
}

/// Something that happens to a file behind a reader's back.
struct Event {
  const char* name;
  std::function<void(const ScratchFile&)> happen;
};

}  // namespace assay::test
