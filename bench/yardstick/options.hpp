// What the user of assay-yardstick asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace assay::yardstick {

/// The table of exit codes, as far as this program uses it.
enum class Exit : int {
  good = 0,
  bad = 1,           ///< a wrong answer, a failed operation, a violated counter
  usage = 2,         ///< also: the output cannot be written
  inconclusive = 5,  ///< under --strict: a limit is missed, or a row was disturbed
  internal = 70,
  nothing_ran = 77,
};

struct Options {
  std::string filter = "all";
  std::string json;  ///< path of the file; empty: none
  std::uint64_t windows = 101;
  bool list = false;
  bool smoke = false;
  bool strict = false;
};

/// The options, or how the program ends instead: after --help or a usage error, which is printed.
struct Parsed {
  std::optional<Exit> ends;
  Options options;
};

[[nodiscard]] Parsed parse_options(int argc, char** argv);

}  // namespace assay::yardstick
