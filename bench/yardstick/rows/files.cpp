// B11, B11b: a file read whole, and a file mapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>

#include <fmt/format.h>

#include "material.hpp"
#include "unnamed_file.hpp"

namespace assay::yardstick {
namespace {

/// Below this a buffer that is used again is the least work; above it, one of huge pages.
constexpr std::size_t kept_max = std::size_t{16} << 20;

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(fmt::format("{}: errno {}", what, errno));
}

/// A file of the pattern, without a name that could stay behind.
class PatternFile {
 public:
  explicit PatternFile(std::size_t size) {
    file_.append(pattern(size));
    if (file_.error().code != ErrorCode::none) throw std::runtime_error(describe(file_.error()));
  }
  [[nodiscard]] const char* path() const noexcept { return file_.path().c_str(); }

 private:
  bench::UnnamedFile file_;
};

/// A mapping, private and gone with the object; `data` is null if there is none.
class Mapping {
 public:
  explicit Mapping(std::size_t size, int fd = -1) : size_(size) {
    const int anonymous = fd < 0 ? MAP_ANONYMOUS : 0;
    const int protection = fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    void* const map = ::mmap(nullptr, size, protection, MAP_PRIVATE | anonymous, fd, 0);
    data_ = map == MAP_FAILED ? nullptr : static_cast<std::byte*>(map);
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::size_t size_;
  std::byte* data_;
};

/// The sum of the bytes, the same code for both sides.
[[gnu::noinline]] std::uint64_t sum_of(const std::byte* bytes, std::size_t size) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += std::to_integer<std::uint64_t>(bytes[i]);
  return sum;
}

/// A value of the file made, read for the first time and dropped; held against reading the file
/// into memory by hand.
class ReadFile final : public Pair {
 public:
  explicit ReadFile(std::size_t size)
      : size_(size), file_(size), kept_(size <= kept_max ? size : 0) {}

  std::string verify() override {
    const auto before = source_reads();
    const Bytes value = must(Bytes::from_file(file_.path()));
    if (value.is_resident()) return "the file was read before it was needed";
    must(value.read());
    if (source_reads().bytes - before.bytes != size_) return "a read brought other than the file";
    return holds_pattern(value, size_) ? "" : "the value holds other bytes than the file";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const auto value = Bytes::from_file(file_.path());
      if (!value) return fail(value.error());
      const auto bytes = value.value().read();
      if (!bytes) return fail(bytes.error());
      const auto* at = bytes.value().data();
      hide(at);
    }
  }
  void yardstick(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const int fd = ::open(file_.path(), O_RDONLY | O_CLOEXEC);
      check(fd >= 0, "open");
      if (kept_.empty()) {
        const Mapping fresh(size_);
        check(fresh.data() != nullptr, "mmap");
        ::madvise(fresh.data(), size_, MADV_HUGEPAGE);
        read_whole(fd, fresh.data());
      } else {
        read_whole(fd, kept_.data());
      }
      ::close(fd);
    }
  }

 private:
  void read_whole(int fd, std::byte* to) const {
    for (std::size_t done = 0; done < size_;) {
      const ssize_t got = ::pread(fd, to + done, size_ - done, static_cast<off_t>(done));
      check(got > 0, "pread");
      done += static_cast<std::size_t>(got);
    }
    hide(to);
  }

  std::size_t size_;
  PatternFile file_;
  std::vector<std::byte> kept_;
};

/// A file mapped, its first byte or all of them read, and unmapped.
template <bool whole>
class MapFile final : public Pair {
 public:
  explicit MapFile(std::size_t size) : size_(size), file_(size) {}

  std::string verify() override {
    const auto before = source_reads();
    const Bytes value = must(Bytes::map_file(file_.path()));
    must(value.read());
    if (!holds_pattern(value, size_)) return "the value holds other bytes than the file";
    return source_reads() == before ? "" : "a mapped file was read";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const auto value = Bytes::map_file(file_.path());
      if (!value) return fail(value.error());
      const auto bytes = value.value().read();
      if (!bytes) return fail(bytes.error());
      look_at(bytes.value().data());
    }
  }
  void yardstick(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const int fd = ::open(file_.path(), O_RDONLY | O_CLOEXEC);
      check(fd >= 0, "open");
      const Mapping map(size_, fd);
      ::close(fd);
      check(map.data() != nullptr, "mmap");
      look_at(map.data());
    }
  }

 private:
  void look_at(const std::byte* bytes) const noexcept {
    std::uint64_t seen = sum_of(bytes, whole ? size_ : 1);
    hide(seen);
  }

  std::size_t size_;
  PatternFile file_;
};

constexpr std::size_t mib = std::size_t{1} << 20;

constexpr Row read_row(std::size_t size, const char* yardstick) {
  return {.name = "B11.from_file",
          .size = size,
          .summary = "a value of a file made, read and dropped",
          .yardstick = yardstick,
          .limit = 1.15,
          .copied = 0,
          .make = make_pair_of<ReadFile>};
}

constexpr Row map_row(const char* name, std::size_t size, const char* summary,
                      const char* yardstick, std::unique_ptr<Pair> (*make)(std::size_t)) {
  return {.name = name,
          .size = size,
          .summary = summary,
          .yardstick = yardstick,
          .limit = 1.3,
          .copied = 0,
          .make = make};
}

}  // namespace

std::span<const Row> files() {
  static constexpr const char* first = "a file mapped, its first byte read, dropped";
  static constexpr const char* by_hand = "open, mmap and one fault";
  static constexpr std::array rows = {
      read_row(mib, "open and pread into a buffer that is kept"),
      read_row(64 * mib, "open and pread into a buffer of huge pages"),
      map_row("B11b.map_file", mib, first, by_hand, make_pair_of<MapFile<false>>),
      map_row("B11b.map_file", 64 * mib, first, by_hand, make_pair_of<MapFile<false>>),
      map_row("B11b.map_file_scan", 64 * mib, "a file mapped, all bytes summed up, dropped",
              "open, mmap and the sum", make_pair_of<MapFile<true>>),
  };
  return rows;
}

}  // namespace assay::yardstick
