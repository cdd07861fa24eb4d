// open_safetensors: a file of 16 tensors opened, every tensor read into a block of the subject,
// all dropped. The file is made before and lies in the page cache.
#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../runner/family.hpp"
#include "../runner/unnamed_file.hpp"
#include "assay/harness/safetensors.hpp"

namespace assay::bench {
namespace {

std::vector<char> tensor_bytes(const Input& input, std::size_t index) {
  std::mt19937_64 random(input.seed + index);
  std::vector<char> bytes(input.size_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[at], &word, std::min(sizeof word, bytes.size() - at));
  }
  return bytes;
}

class OpenSafeTensors {
 public:
  static constexpr std::size_t count = 16;
  static constexpr Family facts{
      .name = "open_safetensors",
      .summary = "a file of 16 tensors opened, each read into a block, all dropped",
      .sizes = {.first = std::size_t{4} << 10,
                .last = std::size_t{1} << 20,
                .last_full = std::size_t{4} << 20},
      .needs = Capabilities::host_access,
      .allocations = count,
      .live_blocks = count,
      .touches = true};

  explicit OpenSafeTensors(const Input& input) {
    std::string header = "{";
    for (std::size_t i = 0; i < count; ++i) {
      header += fmt::format(R"({}"layer.{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})",
                            i == 0 ? "" : ",", i, input.size_bytes, i * input.size_bytes,
                            (i + 1) * input.size_bytes);
    }
    header += "}";
    std::string length;
    for (unsigned shift = 0; shift < 64; shift += 8) {
      length.push_back(static_cast<char>(header.size() >> shift));
    }
    length += header;
    file_.append(std::as_bytes(std::span(length)));
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<char> bytes = tensor_bytes(input, i);
      file_.append(std::as_bytes(std::span(bytes)));
    }
  }

  bool operator()(Backing& backing, Error& error) {
    return each_tensor(backing, error, [](std::size_t, std::span<const std::uint8_t> bytes) {
      benchmark::DoNotOptimize(bytes.data());
    });
  }

  /// What is read is what was written: empty, or what is wrong.
  static std::string check_contents(Backing& backing, const Input& input) {
    std::string wrong;
    Error error;
    OpenSafeTensors made(input);
    const auto compare = [&](std::size_t index, std::span<const std::uint8_t> bytes) {
      const std::vector<char> wanted = tensor_bytes(input, index);
      const bool same = std::ranges::equal(
          bytes, wanted, [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
      if (!same) wrong = fmt::format("tensor {} does not hold what was written", index);
    };
    if (!made.each_tensor(backing, error, compare)) return describe(error);
    return wrong;
  }

 private:
  /// Opens the file, reads every tensor and calls `visit(index, bytes)`; all live until the end.
  template <class Visit>
  bool each_tensor(Backing& backing, Error& error, Visit&& visit) {
    if (file_.error().code != ErrorCode::none) {
      error = file_.error();
      return false;
    }
    const auto home = Home::make(Ref<Backing>::retain(&backing));
    if (!home) {
      error = home.error();
      return false;
    }
    const auto file =
        harness::open_safetensors(file_.path(), harness::FileReading::lazy, *home.value());
    if (!file || file->tensors.size() != count) {
      error = Error::make(ErrorCode::io, "open_safetensors");
      return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto elements = harness::elements_of<std::uint8_t>(file->tensors[i]);
      if (!elements) {
        error = elements.error();
        return false;
      }
      visit(i, elements.value().elements);
    }
    return true;
  }

  UnnamedFile file_;
};

constexpr Family family() {
  Family made = family_of<OpenSafeTensors>();
  made.verify = [](Backing& backing, const Input& input) -> std::string {
    std::string wrong = family_of<OpenSafeTensors>().verify(backing, input);
    return wrong.empty() ? OpenSafeTensors::check_contents(backing, input) : wrong;
  };
  return made;
}

}  // namespace

namespace family_list {

const Family& open_safetensors() {
  static constexpr Family made = family();
  return made;
}

}  // namespace family_list
}  // namespace assay::bench
