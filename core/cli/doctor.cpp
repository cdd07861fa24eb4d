// assay-doctor: what this host can run, what is missing, and how to get it.
#include <cstdio>
#include <span>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "assay/harness/output.hpp"
#include "assay/harness/result_context.hpp"
#include "doctor_driver.hpp"
#include "doctor_host.hpp"
#include "doctor_report.hpp"

namespace assay::doctor {
namespace {

constexpr const char* footer = R"(
The driver is loaded in a child process, so that a broken one is a finding and not a crash. Without
--driver it is the library that ASSAY_CUDA_DRIVER names, else libcuda.so.1.

Exit codes:
  0   the host was examined; what is missing is a finding, a GPU too
  2   usage, or standard output cannot be written
  70  internal error

Example:
  assay-doctor --json > host.json
)";

Json examine(const std::string& driver) {
  const Json build = harness::result_context(0);
  Json facts;
  facts["assay_doctor"] = 1;
  for (const char* key : {"assay_version", "commit", "kernel", "glibc", "date"}) {
    facts[key] = build[key];
  }
  facts.update(driver_facts(driver));
  facts["nvidia"] = nvidia_facts("");
  facts["memory"] = memory_facts("");
  facts["limits"] = limit_facts();
  facts["processor"] = processor_facts("");
  facts["noise"] = noise_facts("");
  facts["allocators"] = allocator_facts();
  facts["missing"] = missing_from(facts);
  return facts;
}

int main_of(std::span<char*> words) {
  if (words.size() == 3 && std::string_view(words[1]) == driver_child) {
    return examine_driver(words[2]);
  }
  if (words.size() == 3 && std::string_view(words[1]) == malloc_child) {
    return examine_malloc(words[2]);
  }
  CLI::App app(
      "Tells what this host can run: the CUDA driver and its devices, memory, limits, processor,\n"
      "sources of noise, foreign allocators; and what is missing and how to get it.",
      "assay-doctor");
  app.footer(footer);
  bool as_json = false;
  std::string driver;
  app.add_flag("--json", as_json, "print everything as JSON (docs/formats.md)");
  app.add_option("--driver", driver, "library to load as the CUDA driver");
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Json facts = examine(driver);
  const std::string text =
      as_json ? facts.dump(2, ' ', true, Json::error_handler_t::replace) + "\n" : to_text(facts);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace
}  // namespace assay::doctor

int main(int count, char** arguments) {
  return assay::harness::run_program("assay-doctor", [&] {
    return assay::doctor::main_of({arguments, static_cast<std::size_t>(count)});
  });
}
