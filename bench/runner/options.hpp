// Options of a benchmark program: those of Google Benchmark that it honours, and its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "family.hpp"

namespace assay::bench {

/// The table of exit codes, as far as a benchmark program uses it.
enum class Exit : int {
  good = 0,
  usage = 2,         ///< also: the output cannot be written
  incomplete = 4,    ///< some row is an error row
  internal = 70,     ///< an uncaught exception
  nothing_ran = 77,  ///< every matching row belongs to an absent subject
};

struct Options {
  std::vector<std::string> subjects;  ///< ids; empty: every one that is not broken on purpose
  std::string filter = "all";
  bool list_tests = false;
  bool list_subjects = false;
  std::string out;  ///< path of the JSON file; empty: none
  bool json_to_stdout = false;
  double min_time_s = 0;  ///< 0: the scope's own
  std::uint32_t repetitions = 1;
  std::uint64_t seed = 1;
  Scope scope = Scope::standard;
  bool smoke = false;
  std::uint32_t row_timeout_s = 30;
  std::vector<std::pair<std::string, std::string>> context;
  // A child's own, set by its parent.
  int child_fd = -1;  ///< where rows go, one JSON line each; -1: this is the parent
  int parent_pid = 0;

  [[nodiscard]] double min_time_or_default_s() const noexcept;
};

/// The options, or how the program ends instead: after --help or a usage error, which is printed.
struct Parsed {
  std::optional<Exit> ends;
  Options options;
};

[[nodiscard]] Parsed parse_options(int argc, char** argv);

/// The command line that gives a child the same rows. `program` is its path.
[[nodiscard]] std::vector<std::string> child_arguments(const Options& options,
                                                       const std::string& program,
                                                       const std::string& subject, int fd);

}  // namespace assay::bench
