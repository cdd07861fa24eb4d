// What the tests of programs share: run one, and a folder that vanishes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "assay/harness/process.hpp"

namespace assay::bench {

using Json = nlohmann::ordered_json;

/// Runs a program that lies beside the tests.
inline harness::ChildResult run(const std::string& program, std::vector<std::string> arguments,
                                std::vector<std::pair<std::string, std::string>> environment = {}) {
  harness::ChildSpec spec;
  spec.environment = std::move(environment);
  spec.arguments = {harness::sibling_program(program)};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.timeout = std::chrono::minutes(4);
  auto child = harness::run_child(spec);
  EXPECT_TRUE(child.has_value()) << program;
  return std::move(child).value_or(harness::ChildResult());
}

/// The rows of a program's JSON output; it must be strict JSON.
inline Json parsed(const harness::ChildResult& child) {
  Json document = Json::parse(child.standard_output, nullptr, false);
  EXPECT_TRUE(document.is_object()) << child.standard_output << child.standard_error;
  return document;
}

/// A new folder, removed with all it holds.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "assay-bench-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::size_t entries() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace assay::bench
