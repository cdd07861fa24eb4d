// B9: a value that grows at its end, by bytes and by chunks.
#include <sys/mman.h>

#include <array>
#include <cstring>

#include "assay/backing/virtual_memory.hpp"
#include "material.hpp"

namespace assay::yardstick {
namespace {

/// A value grown from nothing, byte by byte.
class AppendBytes final : public Pair {
 public:
  explicit AppendBytes(std::size_t size) : size_(size) {}

  std::string verify() override {
    Bytes value;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::byte one = pattern_at(i);
      must(value.extend({&one, 1}));
    }
    return holds_pattern(value, size_) ? "" : "the value holds other bytes than were appended";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      Bytes value;
      std::size_t size = size_;
      hide(size);
      for (std::size_t at = 0; at < size; ++at) {
        const auto one = static_cast<std::byte>(at);
        if (const auto done = value.extend({&one, 1}); !done) return fail(done.error());
      }
      use(value);
    }
  }
  void yardstick(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      std::vector<std::byte> value;
      std::size_t size = size_;
      hide(size);
      for (std::size_t at = 0; at < size; ++at) value.push_back(static_cast<std::byte>(at));
      use(value);
    }
  }

 private:
  std::size_t size_;
};

constexpr std::size_t chunk_bytes = 4096;

/// A value grown from nothing by chunks to `size`, dropped; held against the same copies into a
/// mapping that was as large from the start.
template <bool huge>
class AppendChunks final : public Pair {
 public:
  explicit AppendChunks(std::size_t size) : size_(size), chunk_(pattern(chunk_bytes)) {
    if constexpr (huge) {
      home_ = must(Home::make(VirtualMemory::make(VirtualMemory::HugePages::advised)));
    }
  }

  std::string verify() override {
    Bytes value = must(Bytes::with_capacity(0, home()));
    if (!grow(value)) return trouble();
    if (value.len() != size_) return "the value is shorter than what was appended";
    for (std::size_t at = 0; at < size_; at += chunk_bytes) {
      if (std::memcmp(value.data() + at, chunk_.data(), chunk_bytes) != 0) {
        return "the value holds other bytes than were appended";
      }
    }
    return "";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      auto value = Bytes::with_capacity(0, home());
      if (!value) return fail(value.error());
      if (!grow(value.value())) return;
      use(value);
    }
  }
  void yardstick(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      void* const map =
          ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (map == MAP_FAILED) return fail(Error::make(ErrorCode::out_of_memory, "mmap"));
      if constexpr (huge) ::madvise(map, size_, MADV_HUGEPAGE);
      auto* to = static_cast<std::byte*>(map);
      for (std::size_t at = 0; at < size_; at += chunk_bytes) {
        std::memcpy(to + at, chunk_.data(), chunk_bytes);
        hide(to);
      }
      ::munmap(map, size_);
    }
  }

 private:
  Home& home() noexcept { return huge ? *home_ : Home::host(); }
  bool grow(Bytes& value) {
    for (std::size_t at = 0; at < size_; at += chunk_bytes) {
      if (const auto done = value.extend(chunk_); !done) {
        fail(done.error());
        return false;
      }
    }
    return true;
  }

  std::size_t size_;
  std::vector<std::byte> chunk_;
  Ref<Home> home_;
};

constexpr std::size_t mib = std::size_t{1} << 20;

}  // namespace

std::span<const Row> append() {
  static constexpr std::array rows = {
      // The goal is 1.3 ns a byte, where push_back takes 0.37 ns.
      Row{.name = "B9.append_byte",
          .size = mib,
          .summary = "a byte appended, growth included",
          .yardstick = "push_back to a vector",
          .limit = 3.5,
          .items = mib,
          .make = make_pair_of<AppendBytes>},
      Row{.name = "B9.append_chunks",
          .size = 64 * mib,
          .summary = "chunks of 4 KiB appended up to the size, dropped",
          .yardstick = "memcpy into a fresh mapping",
          .limit = 1.3,
          .make = make_pair_of<AppendChunks<false>>},
      Row{.name = "B9.append_chunks_huge",
          .size = 64 * mib,
          .summary = "the same on a home of huge pages",
          .yardstick = "memcpy into a fresh mapping of huge pages",
          .limit = 1.3,
          .make = make_pair_of<AppendChunks<true>>},
  };
  return rows;
}

}  // namespace assay::yardstick
