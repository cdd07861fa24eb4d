// A machine made of files: a folder that stands in for the root of the kernel's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace assay::harness {

class MadeUpMachine {
 public:
  MadeUpMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "assay-machine-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
  }
  ~MadeUpMachine() { std::filesystem::remove_all(root_); }
  MadeUpMachine(const MadeUpMachine&) = delete;
  MadeUpMachine& operator=(const MadeUpMachine&) = delete;

  /// Writes a file below the root, with the folders that it needs.
  void file(const std::string& path, std::string_view text) const {
    const std::filesystem::path file(root_ + "/" + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace assay::harness
