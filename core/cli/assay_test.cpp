// assay, the dispatcher, from the outside.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "assay/harness/process.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness {
namespace {

namespace fs = std::filesystem;
using Environment = std::vector<std::pair<std::string, std::string>>;

ChildResult assay(std::vector<std::string> arguments, Environment environment = {}) {
  ChildSpec spec;
  spec.arguments = {sibling_program("assay")};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.environment = std::move(environment);
  spec.timeout = std::chrono::minutes(1);
  return run_child(spec).value();
}

/// A folder of small programs that print what they were given.
class Programs {
 public:
  Programs() {
    std::string name = (fs::temp_directory_path() / "assay-cli-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Programs() { fs::remove_all(folder_); }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  std::string add(const std::string& name, int exit_code) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << fmt::format(
        "#!/bin/sh\nfor word in \"$@\"; do echo \"<$word>\"; done\n"
        "echo \"$PYTHONPATH\"\nexit {}\n",
        exit_code);
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  [[nodiscard]] std::string folder() const { return folder_.string(); }

 private:
  fs::path folder_;
};

TEST(Assay, HelpHoldsTheVerbsTheExitCodesAndAnExample) {
  const auto child = assay({"--help"});
  EXPECT_EQ(child.code, 0);
  for (const char* text : {"verify ", "bench ", "replay ", "doctor ", "gate ", "plot ", "report ",
                           "subjects ", "Exit codes", "  77  ", "ASSAY_LIBEXEC", "Example:"}) {
    EXPECT_NE(child.standard_output.find(text), std::string::npos) << text;
  }
}

TEST(Assay, VersionNamesTheCommit) {
  const auto child = assay({"--version"});
  EXPECT_EQ(child.code, 0);
  EXPECT_TRUE(child.standard_output.starts_with("assay 0.")) << child.standard_output;
  EXPECT_NE(child.standard_output.find('('), std::string::npos);
}

TEST(Assay, WhatIsNoVerbExits2WithTheList) {
  const auto unknown = assay({"verfy", "--help"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.standard_error.find("no verb 'verfy'"), std::string::npos);
  EXPECT_NE(unknown.standard_error.find("  verify "), std::string::npos);
  const auto nothing = assay({});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.standard_error.find("  verify "), std::string::npos);
  EXPECT_EQ(assay({"--no-such-flag"}).code, 2);
  EXPECT_EQ(assay({"subjects", "--no-such-flag"}).code, 2);
}

TEST(Assay, ListsEverySubject) {
  const auto json = assay({"subjects", "--json"});
  EXPECT_EQ(json.code, 0);
  const auto list = nlohmann::json::parse(json.standard_output, nullptr, false);
  ASSERT_TRUE(list.is_array());
  ASSERT_EQ(list.size(), subjects().size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["id"], std::string(subjects()[i]->id));
    EXPECT_EQ(list[i]["origin"], std::string(name_of(subjects()[i]->origin)));
    EXPECT_EQ(list[i]["summary"], std::string(subjects()[i]->summary));
  }
  const auto text = assay({"subjects"});
  EXPECT_NE(text.standard_output.find("heap "), std::string::npos);
}

TEST(Assay, LostStandardOutputIsAnError) {
  for (const char* arguments : {"--help", "--version", "subjects", "subjects --json"}) {
    ChildSpec spec;
    spec.arguments = {"/bin/sh", "-c",
                      fmt::format("'{}' {} > /dev/full", sibling_program("assay"), arguments)};
    const auto child = run_child(spec).value();
    EXPECT_EQ(child.code, 2) << arguments;
    EXPECT_TRUE(child.standard_error.starts_with("assay: standard output cannot be written: "));
    EXPECT_EQ(std::ranges::count(child.standard_error, '\n'), 1);
  }
}

TEST(Assay, AVerbBecomesTheProgramBesideIt) {
  const auto child =
      assay({"bench", "--benchmark_list_tests", "--benchmark_filter=backing:heap/size:64$"});
  EXPECT_EQ(child.code, 0) << child.standard_error;
  EXPECT_NE(child.standard_output.find("allocate_free/backing:heap/size:64\n"), std::string::npos);
  EXPECT_EQ(assay({"bench", "--no-such-flag"}).code, 2);
}

TEST(Assay, ProgramsAreTakenFromLibexecWithEveryArgumentAndTheirExitCode) {
  const Programs programs;
  programs.add("assay-verify", 3);
  const Environment environment = {{"ASSAY_LIBEXEC", programs.folder()}};
  const auto child = assay({"verify", "--help", "two words", ""}, environment);
  EXPECT_EQ(child.code, 3);
  EXPECT_TRUE(child.standard_output.starts_with("<--help>\n<two words>\n<>\n"));
  const auto absent = assay({"replay"}, environment);
  EXPECT_EQ(absent.code, 77);
  EXPECT_NE(absent.standard_error.find(programs.folder() + "/assay-replay"), std::string::npos);
}

TEST(Assay, ToolsRunInTheInterpreterThatIsSet) {
  const Programs programs;
  const std::string python = programs.add("python", 5);
  programs.add("assay_tools/__main__.py", 0);
  const Environment good = {
      {"ASSAY_PYTHON", python}, {"ASSAY_TOOLS", programs.folder()}, {"PYTHONPATH", "/elsewhere"}};
  const auto child = assay({"gate", "ab", "--base=x y"}, good);
  EXPECT_EQ(child.code, 5);
  EXPECT_EQ(child.standard_output,
            fmt::format("<-m>\n<assay_tools>\n<gate>\n<ab>\n<--base=x y>\n{}:/elsewhere\n",
                        programs.folder()));
  const auto no_python = assay({"plot"}, {{"ASSAY_PYTHON", programs.folder() + "/none"}});
  EXPECT_EQ(no_python.code, 77);
  EXPECT_NE(no_python.standard_error.find("run scripts/setup"), std::string::npos);
  const auto no_tools =
      assay({"report"}, {{"ASSAY_PYTHON", python}, {"ASSAY_TOOLS", programs.folder() + "/none"}});
  EXPECT_EQ(no_tools.code, 77);
  EXPECT_NE(no_tools.standard_error.find("run scripts/setup"), std::string::npos);
}

}  // namespace
}  // namespace assay::harness
