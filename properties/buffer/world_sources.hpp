// What the values of a BytesWorld come from, and the faults of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "lazy_source.hpp"
#include "scratch_file.hpp"

namespace assay::properties {

/// A file that changes behind its readers' backs, and what it holds now. Made when first needed.
class WorldFile {
 public:
  static constexpr std::size_t size = 9000;

  enum class Change : std::uint8_t { truncate, grow, rewrite, replace, unlink, count };

  /// Number of the file that the path names now, as it is now; 0 if none.
  [[nodiscard]] int number() const { return exists_ ? number_ : 0; }
  [[nodiscard]] const std::vector<std::byte>& content() const { return content_; }
  [[nodiscard]] const char* path() { return scratch().path(); }
  [[nodiscard]] bool used() const { return scratch_ != nullptr; }

  /// Returns whether those who have it open must notice.
  bool apply(Change change, unsigned seed) {
    if (!exists_ || change == Change::replace) {
      content_ = test::counting(size, seed);
      scratch().replace(content_);
      exists_ = true;
      ++number_;
      return false;
    }
    switch (change) {
      case Change::truncate:
        content_.resize(seed % 2 == 0 ? 0 : seed % (content_.size() + 1));
        scratch().resize(content_.size());
        break;
      case Change::grow:
        content_.resize(content_.size() + 10);
        scratch().resize(content_.size());
        break;
      case Change::rewrite:
        content_ = test::counting(content_.size(), seed);
        scratch().overwrite(0, content_);
        break;
      default:
        std::filesystem::remove(path());
        exists_ = false;
        return false;
    }
    // A time of modification that no earlier state had, so that the next change shows as well.
    const timespec past[2] = {{++stamp_, 0}, {stamp_, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path(), past, 0), 0);
    ++number_;
    return true;
  }

 private:
  test::ScratchFile& scratch() {
    if (!scratch_) scratch_ = std::make_unique<test::ScratchFile>(content_);
    return *scratch_;
  }

  std::unique_ptr<test::ScratchFile> scratch_;
  std::vector<std::byte> content_ = test::counting(size, 7);
  bool exists_ = true;
  int number_ = 1;
  time_t stamp_ = 1'100'000'000;
};

/// Sources of a world, and how often their memory was handed in and came back.
struct WorldSources {
  const Ref<test::LazySource> watched = test::LazySource::make(test::counting(700, 3));
  std::uint64_t watched_made = 0;
  std::uint64_t constants_made = 0;
  std::uint64_t constants_released = 0;
  WorldFile file;
  Ref<Backing> device;  ///< null: no device

  /// Immutable foreign memory that every world may use.
  static std::span<const std::byte> constant_memory() {
    static const auto memory = test::counting(4096, 100);
    return memory;
  }
  static void release_constant(void* context, std::span<std::byte>) noexcept {
    ++static_cast<WorldSources*>(context)->constants_released;
  }
  [[nodiscard]] std::string fault() const {
    if (watched->releases() != watched_made) return "a watched source did not come back once";
    if (constants_released != constants_made) return "foreign memory did not come back once";
    if (device && device->usage().live_blocks != 0) return "a device block leaked";
    return "";
  }
};

}  // namespace assay::properties
