// assay-probe: asks the driver what no source tells, and writes the answers down.
//
// probe.json is assay.probe/1: `context` (as in every result, and what the driver is), and
// `probes`, a list of
//   id, asks   the probe and its question
//   outcome    "answered", "absent" (the driver lacks a function), "skipped", "failed" (a
//              preparation), "crashed" or "timed out"
//   detail     why it is not "answered"
//   answers    list of {step, kind: code | holds | value | signal, value, spelled}, in their order
//   notes      list of texts
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/output.hpp"
#include "assay/harness/result_context.hpp"
#include "assay/harness/trace.hpp"
#include "probe/probe.hpp"
#include "program/campaign.hpp"
#include "program/child.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

constexpr int exit_good = 0;
constexpr int exit_usage = 2;
constexpr int probe_limit_s = 20;

struct Options {
  DriverChoice driver;
  std::string out;
  std::vector<std::string> only;
  std::string one;
  bool facts = false;
  bool list = false;
};

int usage_error(const std::string& message) {
  fmt::print(stderr, "assay-probe: {}\n", message);
  return exit_usage;
}

const Probe* find_probe(const std::string& id) {
  for (const Probe& probe : all_probes()) {
    if (id == probe.id) return &probe;
  }
  return nullptr;
}

/// What a test's process does, for a probe: no outcome is wrong.
int be_probe(const Probe& probe, const std::string& driver_path) {
  const Test test{probe.id, probe.asks, from(probe.start), {}, probe.steps};
  return run_one(test, driver_path);
}

std::string absent_functions(const Transcript& said) {
  std::string names;
  for (const std::string& note : said.notes) {
    if (note.starts_with("absent: ")) names += (names.empty() ? "" : ", ") + note.substr(8);
  }
  return names;
}

void set_outcome(Json& json, const Transcript& said, const harness::ChildResult& child) {
  const std::string absent = absent_functions(said);
  if (child.end == harness::ChildResult::End::timed_out) {
    json["outcome"] = "timed out";
    json["detail"] = child.describe();
  } else if (!child.succeeded()) {
    json["outcome"] = "crashed";
    json["detail"] = child.describe();
  } else if (!said.skipped.empty()) {
    json["outcome"] = "skipped";
    json["detail"] = said.skipped;
  } else if (!said.setup.empty()) {
    json["outcome"] = "failed";
    json["detail"] = said.setup;
  } else if (!absent.empty()) {
    const bool nothing = said.observations.empty();
    json["outcome"] = nothing ? "absent" : "answered";
    json["detail"] = (nothing ? "" : "absent: ") + absent;
  } else {
    json["outcome"] = "answered";
    json["detail"] = "";
  }
}

Json run_probe(const DriverChoice& driver, const Probe& probe) {
  Json json = {{"id", probe.id}, {"asks", probe.asks}};
  const auto child = harness::run_child(child_of(driver, {"--one", probe.id}, probe_limit_s));
  if (!child) {
    json["outcome"] = "failed";
    json["detail"] = describe(child.error());
    return json;
  }
  const Transcript said = read_transcript(child.value().standard_output);
  set_outcome(json, said, child.value());
  json["answers"] = Json::array();
  for (const Observation& seen : said.observations) {
    json["answers"].push_back({{"step", seen.step},
                               {"kind", name_of(seen.kind)},
                               {"value", seen.value},
                               {"spelled", spell(seen.kind, seen.value)}});
  }
  json["notes"] = said.notes;
  return json;
}

void show(const Json& probe) {
  fmt::print("{:<4} {}\n     {}{}{}\n", probe["id"].get<std::string>(),
             probe["asks"].get<std::string>(), probe["outcome"].get<std::string>(),
             probe["detail"] == "" ? "" : ": ", probe["detail"].get<std::string>());
  if (!probe.contains("answers")) return;
  for (const Json& each : probe["answers"]) {
    fmt::print("     {}: {}\n", each["step"].get<std::string>(),
               each["spelled"].get<std::string>());
  }
}

int ask_all(const Options& options) {
  std::vector<const Probe*> chosen;
  for (const Probe& probe : all_probes()) {
    if (options.only.empty()) chosen.push_back(&probe);
  }
  for (const std::string& id : options.only) {
    const Probe* const probe = find_probe(id);
    if (probe == nullptr) {
      return usage_error(fmt::format("--only: no probe '{}'; --list names them all", id));
    }
    chosen.push_back(probe);
  }
  if (!options.out.empty()) {
    if (const auto good = harness::check_writable(options.out); !good) {
      return usage_error(fmt::format("--out {}: {}", options.out, describe(good.error())));
    }
  }
  const Facts facts = ask_facts(options.driver);
  if (!facts.why.empty()) {
    fmt::print(stderr, "assay-probe: {}\n", facts.why);
    return facts.exit_code;
  }
  Json result;
  result["context"] = harness::result_context(0);
  result["context"]["assay_schema"] = "assay.probe/1";
  for (const auto& [key, fact] : facts.json.items()) {
    if (key != "rule_list") result["context"][key] = fact;
  }
  result["probes"] = Json::array();
  for (const Probe* probe : chosen) {
    result["probes"].push_back(run_probe(options.driver, *probe));
    show(result["probes"].back());
  }
  if (options.out.empty()) return exit_good;
  const auto written = harness::write_atomically(options.out, result.dump(1) + "\n");
  return written ? exit_good : usage_error("--out: " + written.error().describe());
}

std::string not_empty(const std::string& text) {
  return text.empty() ? "it is empty" : "";
}

int run(int argument_count, char** arguments) {
  CLI::App app(
      "Asks the CUDA driver, or the model that stands in for one, what no source tells: each probe "
      "is "
      "one\nprocess, and nothing it finds is wrong.",
      "assay-probe");
  Options options;
  app.footer(
      "Exit codes: 0 all were asked, whatever they found; 1 the driver fails; 2 usage, no "
      "driver to use or unwritable output; 70\ninternal error; 77 no driver or no device, nothing "
      "could run.\n"
      "Example: assay-probe --driver lib/libassay_cuda_model.so --out probe.json");
  app.add_option("--driver", options.driver.path,
                 "library to load, or model for the one that comes with assay (default: "
                 "$ASSAY_CUDA_DRIVER, else libcuda.so.1)")
      ->check(not_empty)
      ->type_name("PATH");
  app.add_option("--profile", options.driver.profile,
                 "profile of the model: " + harness::model_profile_names() + ", or a file")
      ->check(not_empty)
      ->type_name("NAME");
  app.add_option("--out", options.out, "write the answers as JSON (assay.probe/1)")
      ->check(not_empty)
      ->type_name("FILE");
  app.add_option("--only", options.only, "only this probe (again for more)")->type_name("ID");
  CLI::Option* const list = app.add_flag("--list", options.list, "print all probes");
  for (const char* ignored : {"--driver", "--profile", "--out", "--only"}) {
    list->excludes(app.get_option(ignored));
  }
  app.add_option("--one", options.one, "be the process of one probe")->group("");
  app.add_flag("--facts", options.facts, "print what the driver is")->group("");
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_good : exit_usage;
  }
  if (const auto wrong = settle(options.driver); !wrong.empty()) return usage_error(wrong);
  if (options.facts) return print_facts(options.driver.path);
  if (!options.one.empty()) {
    const Probe* const probe = find_probe(options.one);
    if (probe == nullptr) return usage_error(fmt::format("--one: no probe '{}'", options.one));
    return be_probe(*probe, options.driver.path);
  }
  if (options.list) {
    for (const Probe& probe : all_probes()) fmt::print("{:<4} {}\n", probe.id, probe.asks);
    return exit_good;
  }
  return ask_all(options);
}

}  // namespace
}  // namespace assay::conformance

int main(int argument_count, char** arguments) {
  return assay::harness::run_program(
      "assay-probe", [&] { return assay::conformance::run(argument_count, arguments); });
}
