// fuzz-seeds: makes the folder from which the fuzz targets start, anew.
//
// usage: fuzz-seeds FOLDER [SAFETENSORS_FILE...]
// exit: 0 good; 2 usage, or a file that cannot be read or written
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A new folder of seeds. Throws std::filesystem::filesystem_error if it cannot have them.
class Folder {
 public:
  explicit Folder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  template <class Content>
  void add(const Content& content) {
    const fs::path to = path_ / fmt::format("seed-{:02}", count_++);
    std::ofstream file(to, std::ios::binary);
    file.write(reinterpret_cast<const char*>(content.data()),
               static_cast<std::streamsize>(content.size()));
    if (!file.flush()) {
      throw fs::filesystem_error("cannot write", to,
                                 std::error_code(errno, std::system_category()));
    }
  }
  void add_file(const fs::path& from) { fs::copy_file(from, path_ / from.filename()); }

 private:
  fs::path path_;
  unsigned count_ = 0;
};

void write_cbor(const fs::path& path) {
  using Octets = std::vector<std::uint8_t>;
  Folder folder(path);
  for (const std::size_t size : {0U, 1U, 23U, 24U, 255U, 256U, 600U}) {
    const Octets octets(size, 7);
    folder.add(json::to_cbor(json::binary(octets)));
    folder.add(json::to_cbor(json(octets)));
  }
  folder.add(Octets{0x5f, 0x42, 1, 2, 0x40, 0x58, 1, 3, 0xff});
  folder.add(Octets{0x9f, 1, 0x18, 200, 0x19, 0, 3, 0xff});
  folder.add(Octets{0x5b, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  folder.add(json::to_cbor(json("text")));
  folder.add(json::to_cbor(json{{"map", 1.5}}));
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(header.size() >> (8 * i)));
  return file + header + std::string(data_bytes, 'x');
}

void write_safetensors(const fs::path& path, int count, char** files) {
  Folder folder(path);
  folder.add(file_of("{}", 0));
  folder.add(file_of(R"({"__metadata__":{"format":"pt"}})", 0));
  folder.add(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  )", 8));
  folder.add(file_of(R"({"b":{"dtype":"U8","shape":[],"data_offsets":[4,5],"x":[{"y":null}]},)"
                     R"("a":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]}})",
                     5));
  for (int i = 0; i < count; ++i) folder.add_file(files[i]);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "usage: fuzz-seeds FOLDER [SAFETENSORS_FILE...]\n");
    return 2;
  }
  try {
    const fs::path folder = arguments[1];
    write_cbor(folder / "cbor");
    write_safetensors(folder / "safetensors", count - 2, arguments + 2);
    return 0;
  } catch (const fs::filesystem_error& error) {
    fmt::print(stderr, "fuzz-seeds: {}\n", error.what());
    return 2;
  }
}
