// The programs as they are called: what they refuse, and that nothing outlives them.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/harness/process.hpp"

namespace assay::conformance {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

std::string program(const std::string& name) {
  return std::string(ASSAY_TEST_PROGRAMS) + "/" + name;
}

harness::ChildResult call(const Arguments& words) {
  harness::ChildSpec spec;
  spec.arguments = words;
  spec.arguments[0] = program(words[0]);
  spec.environment = {{"ASSAY_CUDA_DRIVER", ""}};
  spec.timeout = std::chrono::seconds(60);
  auto ran = harness::run_child(spec);
  EXPECT_TRUE(ran) << words[0];
  return ran ? std::move(ran).value() : harness::ChildResult{};
}

struct Refusal {
  Arguments words;
  int code;
  const char* says;  ///< somewhere on standard error
};

void expect(const std::vector<Refusal>& refusals) {
  for (const Refusal& each : refusals) {
    const harness::ChildResult said = call(each.words);
    std::string line;
    for (const std::string& word : each.words) line += word + " ";
    EXPECT_EQ(said.code, each.code) << line << said.describe();
    EXPECT_NE(said.standard_error.find(each.says), std::string::npos)
        << line << "says: " << said.standard_error;
  }
}

/// A file of this text that goes with its owner.
class File {
 public:
  explicit File(const std::string& text) {
    const int fd = ::mkstemp(path_.data());
    ::close(fd);
    std::ofstream(path_) << text;
  }
  ~File() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "assay-program-XXXXXX").string();
};

TEST(Programs, RefuseDriversThatAreNone) {
  const File text("no library\n");
  const File no_device("base = h200\ndevices = 0\n");
  for (const char* name : {"assay-conformance", "assay-probe", "assay-driver-sweep"}) {
    expect({
        {{name, "--driver", "/nonexist.so"}, 2, "there is no /nonexist.so"},
        {{name, "--driver", "libnonexist.so"}, 2, "cannot open shared object file"},
        {{name, "--driver", "libm.so.6"}, 2, "libm.so.6"},
        {{name, "--driver", text.path()}, 2, text.path().c_str()},
        {{name, "--driver", "model", "--profile", "nope"}, 2, "no readable file 'nope'"},
        {{name, "--driver", "model", "--profile", no_device.path()}, 77, "no_device"},
    });
  }
}

TEST(Programs, FindTheModel) {
  EXPECT_EQ(call({"assay-probe", "--driver", "model", "--only", "P1"}).code, 0);
  EXPECT_EQ(call({"assay-conformance", "--driver", "model", "--filter", "init."}).code, 0);
}

TEST(Programs, RefuseWhatTheyWouldIgnore) {
  const char* const program = "assay-conformance";
  expect({
      {{program, "--sequences", "0"}, 2, "at least 1"},
      {{program, "--sequences", "-1"}, 2, "not a natural number"},
      {{program, "--sequences", "1", "--out", "f"}, 2, "excludes"},
      {{program, "--sequences", "1", "--filter", "copy"}, 2, "excludes"},
      {{program, "--also-profile", "f"}, 2, "requires"},
      {{program, "--diff", "a", "b", "--list"}, 2, "excludes"},
      {{program, "--diff", "a", "b", "--out", "f"}, 2, "excludes"},
      {{program, "--out", ""}, 2, "empty"},
      {{program, "--seed", "3"}, 2, "requires"},
      {{"assay-probe", "--out", ""}, 2, "empty"},
      {{"assay-probe", "--list", "--out", "f"}, 2, "excludes"},
  });
}

TEST(Programs, SweepRefusesCallsThatAreNone) {
  const char* const program = "assay-driver-sweep";
  expect({
      {{program, "--call", "-1"}, 2, "not a natural number"},
      {{program, "--call", "0"}, 2, "from 1"},
      {{program, "--backing", "device", "--call", "999999"}, 2, "no scenario makes so many calls"},
      {{program, "--mutants", "--call", "1"}, 2, "excludes"},
  });
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ifstream stat(process.path() / "stat");
    std::string text;
    std::getline(stat, text);
    const auto after_name = text.rfind(')');
    if (after_name == std::string::npos || text.size() < after_name + 4) continue;
    if (std::atoi(text.c_str() + after_name + 4) == parent)
      children.push_back(std::atoi(text.c_str()));
  }
  return children;
}

bool is_running(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto after_name = text.rfind(')');
  return after_name != std::string::npos && text.substr(after_name + 2, 1) != "Z";
}

bool has_mapped(pid_t process, const std::string& library) {
  std::ifstream file("/proc/" + std::to_string(process) + "/maps");
  for (std::string line; std::getline(file, line);) {
    if (line.find(library) != std::string::npos) return true;
  }
  return false;
}

/// Kills the program while it has children that have loaded `library`, or, if that is empty, have
/// children themselves; true if they end with it.
bool takes_its_children_along(Arguments words, int signal, const std::string& library) {
  words[0] = program(words[0]);
  std::vector<char*> pointers;
  for (std::string& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    ::posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", 1 /* O_WRONLY */, 0);
  }
  pid_t child = -1;
  if (::posix_spawn(&child, words[0].c_str(), &quiet, nullptr, pointers.data(), environ) != 0) {
    return false;
  }
  ::posix_spawn_file_actions_destroy(&quiet);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto in_time = [&] { return std::chrono::steady_clock::now() < limit; };
  std::vector<pid_t> orphans;
  const auto lasting = [&] {
    orphans = children_of(child);
    std::erase_if(orphans, [&](pid_t each) {
      const bool meant = library.empty() ? !children_of(each).empty() : has_mapped(each, library);
      return !meant || !is_running(each);
    });
    return !orphans.empty();
  };
  while (in_time() && !lasting()) std::this_thread::yield();
  // Stopped, so that they cannot end by themselves, as on a closed pipe.
  for (const pid_t each : orphans) ::kill(each, SIGSTOP);
  ::kill(child, signal);
  ::waitpid(child, nullptr, 0);
  const auto any_runs = [&] {
    for (const pid_t each : orphans) {
      if (is_running(each)) return true;
    }
    return false;
  };
  while (in_time() && any_runs()) std::this_thread::yield();
  const bool all_ended = !orphans.empty() && !any_runs();
  for (const pid_t each : orphans) {
    if (is_running(each)) ::kill(each, SIGKILL);
  }
  return all_ended;
}

TEST(Programs, ChildrenEndWithThem) {
  const Arguments sweep = {"assay-driver-sweep", "--driver", "model"};
  const Arguments sequences = {"assay-conformance", "--driver", "model", "--sequences", "1000000"};
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    EXPECT_TRUE(takes_its_children_along(sequences, signal, "libassay_cuda_model")) << signal;
    EXPECT_TRUE(takes_its_children_along(sweep, signal, "")) << signal;
  }
}

}  // namespace
}  // namespace assay::conformance
