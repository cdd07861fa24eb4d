// ScratchFile: a file in a folder of its own, and what can be done to a file behind a reader's
// back.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay::test {

/// Descriptors that this process has open.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += entry.is_symlink() ? 1 : 0;
  }
  return count;
}

/// **Invariants** right after it is made its time of modification lies years back, so that any
/// later write shows, however coarse the clock of the file system is.
class ScratchFile {
 public:
  explicit ScratchFile(
      const std::vector<std::byte>& content,
      const std::filesystem::path& where = std::filesystem::temp_directory_path()) {
    std::string name = (where / "assay-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ + "/file";
    create(path_, content);
  }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] const char* path() const { return path_.c_str(); }
  /// The path of another file in the same folder.
  [[nodiscard]] std::string beside(std::string_view name) const {
    return folder_ + "/" + std::string(name);
  }

  static void create(const std::string& path, const std::vector<std::byte>& content) {
    const int made = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    ASSERT_GE(made, 0) << path;
    ASSERT_EQ(::write(made, content.data(), content.size()), std::ssize(content));
    const timespec past[2] = {{1'000'000'000, 1}, {1'000'000'000, 1}};
    ASSERT_EQ(::futimens(made, past), 0);
    ::close(made);
  }
  void resize(std::uint64_t size) const {
    ASSERT_EQ(::truncate(path(), static_cast<off_t>(size)), 0);
  }
  void overwrite(std::uint64_t offset, const std::vector<std::byte>& with) const {
    const int file = ::open(path(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::pwrite(file, with.data(), with.size(), static_cast<off_t>(offset)),
              std::ssize(with));
    ::close(file);
  }
  void touch() const { ASSERT_EQ(::utimensat(AT_FDCWD, path(), nullptr, 0), 0); }
  /// Overwrites in place and sets the time of modification back, as often as it takes for the time
  /// of status change to move: the clock of the file system may be coarse.
  void overwrite_unseen(std::uint64_t offset, const std::vector<std::byte>& with) const {
    const struct stat before = status();
    struct stat now{};
    do {
      overwrite(offset, with);
      const timespec times[2] = {before.st_atim, before.st_mtim};
      ASSERT_EQ(::utimensat(AT_FDCWD, path(), times, 0), 0);
      now = status();
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
  }
  /// Another file takes this one's path.
  void replace(const std::vector<std::byte>& content) const {
    create(beside("new"), content);
    ASSERT_EQ(::rename(beside("new").c_str(), path()), 0);
  }
  [[nodiscard]] struct stat status() const {
    struct stat now{};
    EXPECT_EQ(::stat(path(), &now), 0);
    return now;
  }

 private:
  std::string folder_;
  std::string path_;
};

}  // namespace assay::test
