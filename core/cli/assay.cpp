// assay: one command for everything. Each verb is a program of its own, found beside this one; the
// verbs of the Python side run in the interpreter that scripts/setup prepared.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "assay/harness/output.hpp"
#include "assay/harness/process.hpp"
#include "assay/harness/result_context.hpp"
#include "assay/harness/subject.hpp"

namespace {

enum class Exit : int { good = 0, usage = 2, nothing_ran = 77 };

struct Verb {
  std::string_view name;
  std::string_view summary;
  std::string_view program{};  ///< empty: a verb of the Python tools
};

constexpr std::array verbs = {
    Verb{"verify", "is this allocator correct? properties, with minimal replayable failures",
         "assay-verify"},
    Verb{"bench", "what does each allocator cost? verified measurements", "assay-bench"},
    Verb{"replay", "what would a recorded workload do on it?", "assay-replay"},
    Verb{"yardstick", "is an operation as fast as the least work it needs?", "assay-yardstick"},
    Verb{"doctor", "what can this host run, and what is missing?", "assay-doctor"},
    Verb{"gate", "did a change make it slower or wrong? one verdict"},
    Verb{"plot", "figures from results"},
    Verb{"report", "one page from everything"},
};

constexpr const char* footer = R"(
Verbs (assay VERB --help tells the options of each):
{}
Exit codes of every verb:
  0   good
  1   the thing under test is bad: a property failed, crashed or hung; a confirmed regression
  2   usage, or unreadable input
  3   not comparable (metadata differs or is absent)
  4   incomplete: a row errored, is missing or invalid
  5   inconclusive, under --strict
  70  internal error
  77  nothing could run here, such as a verb that is not installed

Environment:
  ASSAY_LIBEXEC  folder of the verbs' programs (default: the folder of this one)
  ASSAY_PYTHON   interpreter of gate, plot and report (default: that of assay-tools.conf)
  ASSAY_TOOLS    folder that holds the Python package assay_tools (default: the same file's)

Example:
  assay bench --out now.json && assay plot now.json --out figures)";

std::string verb_lines() {
  std::string text;
  for (const Verb& verb : verbs) text += fmt::format("  {:<9} {}\n", verb.name, verb.summary);
  return text;
}

template <class... Arguments>
void complain(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::print(stderr, "assay: {}\n", fmt::format(format, std::forward<Arguments>(arguments)...));
}

/// Becomes `program`; returns only if that is impossible.
Exit become(const std::string& program, std::vector<std::string> arguments, std::string_view verb,
            std::string_view remedy) {
  std::vector<char*> pointers;
  for (std::string& text : arguments) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  complain("{}: {} cannot be run: {}; {}", verb, program, std::strerror(errno), remedy);
  return Exit::nothing_ran;
}

/// The value of `key` in assay-tools.conf ("key = value" lines) beside this program. A value that
/// begins with "../" is meant from there, so that a carried folder may lie anywhere.
std::string configured(std::string_view key) {
  const std::string self = assay::harness::this_program();
  const std::string folder = self.substr(0, self.rfind('/') + 1);
  std::ifstream file(folder + "assay-tools.conf");
  for (std::string line; std::getline(file, line);) {
    const auto equals = line.find(" = ");
    if (equals == std::string::npos || line.compare(0, equals, key) != 0) continue;
    const std::string value = line.substr(equals + 3);
    return value.starts_with("../") ? folder + value : value;
  }
  return "";
}

/// The program of that name: as given if it has a slash, else looked for along PATH.
std::string in_path(const std::string& name) {
  if (name.empty() || name.contains('/')) return name;
  const char* const path = std::getenv("PATH");
  std::string_view left = path != nullptr ? path : "";
  while (!left.empty()) {
    const std::string_view folder = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(left.size(), folder.size() + 1));
    std::string found = fmt::format("{}/{}", folder, name);
    if (!folder.empty() && ::access(found.c_str(), X_OK) == 0) return found;
  }
  return name;
}

std::string setting(const char* variable, std::string_view key) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0' ? value : configured(key);
}

Exit run_tool(const Verb& verb, const std::vector<std::string>& rest) {
  const std::string python = in_path(setting("ASSAY_PYTHON", "python"));
  const std::string tools = setting("ASSAY_TOOLS", "tools");
  if (python.empty() || ::access(python.c_str(), X_OK) != 0) {
    complain("{}: there is no Python interpreter at '{}'; run scripts/setup, or set ASSAY_PYTHON",
             verb.name, python);
    return Exit::nothing_ran;
  }
  if (tools.empty() || ::access((tools + "/assay_tools/__main__.py").c_str(), R_OK) != 0) {
    complain(
        "{}: there is no Python package assay_tools in '{}'; run scripts/setup, or set "
        "ASSAY_TOOLS",
        verb.name, tools);
    return Exit::nothing_ran;
  }
  const char* const others = std::getenv("PYTHONPATH");
  const bool alone = others == nullptr || *others == '\0';
  ::setenv("PYTHONPATH", alone ? tools.c_str() : fmt::format("{}:{}", tools, others).c_str(), 1);
  std::vector<std::string> arguments = {python, "-m", "assay_tools", std::string(verb.name)};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return become(python, arguments, verb.name, "run scripts/setup");
}

Exit run_verb(const Verb& verb, const std::vector<std::string>& rest) {
  if (verb.program.empty()) return run_tool(verb, rest);
  const std::string program = assay::harness::sibling_program(std::string(verb.program));
  std::vector<std::string> arguments = {program};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  return become(program, arguments, verb.name,
                "build it, or set ASSAY_LIBEXEC to the folder that holds it");
}

void list_subjects(bool as_json) {
  auto list = nlohmann::ordered_json::array();
  for (const assay::harness::Subject* subject : assay::harness::subjects()) {
    const auto origin = assay::harness::name_of(subject->origin);
    if (!as_json) {
      fmt::print("{:<24} {:<8} {}\n", subject->id, origin, subject->summary);
      continue;
    }
    list.push_back({{"id", std::string(subject->id)},
                    {"origin", std::string(origin)},
                    {"summary", std::string(subject->summary)},
                    {"preload", std::string(subject->preload)},
                    {"package", std::string(subject->package)}});
  }
  if (as_json) fmt::print("{}\n", list.dump(2));
}

std::string version() {
  const auto context = assay::harness::result_context(0);
  return fmt::format("assay {} ({}, {})", context["assay_version"].get<std::string>(),
                     context["commit"].get<std::string>(), context["compiler"].get<std::string>());
}

/// Everything that is not a verb of its own.
Exit run_here(int argc, char** argv) {
  CLI::App app("Verifies and benchmarks memory allocators: assay VERB [OPTIONS]");
  app.name("assay");
  app.footer(fmt::format(fmt::runtime(footer), verb_lines()));
  app.set_version_flag("--version", version);
  bool as_json = false;
  auto* const subjects = app.add_subcommand("subjects", "list the allocators that are known");
  subjects->add_flag("--json", as_json, "as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& ending) {
    return app.exit(ending) == 0 ? Exit::good : Exit::usage;
  }
  if (!subjects->parsed()) {
    fmt::print(stderr, "{}", app.help());
    return Exit::usage;
  }
  list_subjects(as_json);
  return Exit::good;
}

Exit run(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  const auto* const verb = std::ranges::find(verbs, word, &Verb::name);
  if (verb != verbs.end()) return run_verb(*verb, {argv + 2, argv + argc});
  if (!word.empty() && !word.starts_with('-') && word != "subjects") {
    complain("there is no verb '{}'; there are:\n{}  subjects  list the allocators that are known",
             word, verb_lines());
    return Exit::usage;
  }
  return run_here(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  return assay::harness::run_program("assay", [&] { return static_cast<int>(run(argc, argv)); });
}
