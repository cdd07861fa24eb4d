#include "child.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "assay/harness/driver_facts.hpp"
#include "assay/harness/json_number.hpp"
#include "assay/harness/process.hpp"
#include "assay/harness/text_cursor.hpp"

namespace assay::replay {
namespace {

using harness::CallTimes;
using harness::ReplayOptions;
using harness::ReplayRun;
using harness::Subject;
using Json = nlohmann::ordered_json;

constexpr std::string_view child_flag = "--child";
#ifdef ASSAY_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

Json json_of(const CallTimes& times, bool timed) {
  Json json;
  json["count"] = times.count;
  const auto put = [&](const char* key, double value) {
    json[key] = timed && times.count != 0 ? harness::json_number(value) : Json(nullptr);
  };
  put("p50_ns", times.p50_ns);
  put("p99_ns", times.p99_ns);
  put("p999_ns", times.p999_ns);
  put("max_ns", times.max_ns);
  json["below_timer"] = times.below_timer;
  return json;
}

/// 1 - part / whole, or null where that says nothing: the whole is unknown, 0, or (memory that was
/// mapped before the replay held the blocks) smaller than the part.
Json unused_share(std::optional<std::uint64_t> part, std::optional<std::uint64_t> whole) {
  if (!part || !whole || *whole == 0 || *part > *whole) return nullptr;
  return 1.0 - static_cast<double>(*part) / static_cast<double>(*whole);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Json figures_of(const ReplayRun& run) {
  const bool ok = run.problem.empty();
  Json json;
  json["time_s"] = ok ? harness::json_number(median(run.times_s)) : Json(nullptr);
  json["times_s"] = ok ? Json(run.times_s) : Json::array();
  Json& operations = json["operations"];
  operations["allocate"] = json_of(run.allocate, ok);
  operations["deallocate"] = json_of(run.deallocate, ok);
  if (run.resize.count != 0) operations["resize"] = json_of(run.resize, ok);
  Json& peak = json["peak"];
  peak["requested_bytes"] = run.peak.requested_bytes;
  peak["granted_bytes"] = run.peak.granted_bytes ? Json(*run.peak.granted_bytes) : Json(nullptr);
  peak["reserved_bytes"] = run.peak.reserved_bytes;
  peak["resident_bytes"] = run.peak.resident_bytes;
  json["internal_fragmentation"] =
      ok ? unused_share(run.peak.requested_bytes, run.peak.granted_bytes) : Json(nullptr);
  json["external_fragmentation"] =
      ok ? unused_share(run.peak.granted_bytes, run.peak.reserved_bytes) : Json(nullptr);
  json["failed_allocations"] = run.failed_allocations;
  return json;
}

ReplayOptions::Figures figures_source(const Subject& subject) noexcept {
  if (subject.is_process() || subject.id == "malloc") return ReplayOptions::Figures::malloc_family;
  const bool ours =
      subject.origin != harness::Origin::system && subject.origin != harness::Origin::foreign;
  return ours ? ReplayOptions::Figures::usage : ReplayOptions::Figures::process;
}

int say(const char* status, const std::string& reason, const ReplayRun& run) {
  Json json;
  json["status"] = status;
  json["reason"] = reason;
  json["timer_cost_ns"] = run.timer_cost_ns;
  json["figures"] = figures_of(run);
  // On a line of its own: the subject may have written to standard output too.
  const std::string text = '\n' + json.dump(-1, ' ', true, Json::error_handler_t::replace);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return written && std::fflush(stdout) == 0 ? exit_good : exit_internal;
}

int skip(const std::string& reason) {
  return say("skipped", reason, {.problem = reason});
}

std::string install(const Subject& subject) {
  return subject.package.empty() ? fmt::format("{} is not here", subject.preload)
                                 : fmt::format("install {}", subject.package);
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Row row_without_figures(const Subject& subject, std::string status, std::string reason) {
  return {std::string(subject.id), std::move(status), std::move(reason), 0,
          figures_of({.problem = "nothing was measured"})};
}

/// The child's own words, or what its silence means.
Row read_row(const Subject& subject, const harness::ChildResult& child) {
  if (child.end == harness::ChildResult::End::timed_out) {
    return row_without_figures(subject, "timed_out", child.describe());
  }
  const std::string said = last_line(child.standard_error);
  const Json json = Json::parse(last_line(child.standard_output), nullptr, false);
  if (!child.succeeded() || !json.is_object()) {
    const std::string how = child.succeeded() ? "ended without a result" : child.describe();
    return row_without_figures(subject, "crashed",
                               said.empty() ? how : fmt::format("{}: {}", how, said));
  }
  return {std::string(subject.id), json.at("status").get<std::string>(),
          json.at("reason").get<std::string>(), json.at("timer_cost_ns").get<double>(),
          json.at("figures")};
}

}  // namespace

Result<SharedPlan> SharedPlan::make(const harness::PlanView& plan) {
  const int fd = ::memfd_create("assay-replay-plan", 0);  // children inherit it
  if (fd < 0) {
    Error error = Error::make(ErrorCode::io, "memfd_create", "replay");
    error.native = errno;
    return error;
  }
  SharedPlan shared(fd);
  ASSAY_TRY_VOID(harness::store_plan(plan, fd));
  return shared;
}

SharedPlan::~SharedPlan() {
  if (fd_ >= 0) ::close(fd_);
}

Row run_subject(const Subject& subject, const SharedPlan& plan, const Options& options) {
  if (subject.is_process() && sanitized) {
    return row_without_figures(subject, "skipped",
                               "foreign libraries run in builds without sanitizers only");
  }
  harness::ChildSpec spec;
  spec.arguments = {harness::this_program(),
                    std::string(child_flag),
                    fmt::to_string(plan.fd()),
                    std::string(subject.id),
                    std::string(name_of(options.touch)),
                    fmt::to_string(options.repeat)};
  if (subject.is_process()) spec.environment = {{"LD_PRELOAD", std::string(subject.preload)}};
  spec.timeout = options.timeout;
  const auto child = harness::run_child(spec);
  if (!child) return row_without_figures(subject, "crashed", describe(child.error()));
  return read_row(subject, child.value());
}

bool is_child(std::span<char* const> arguments) noexcept {
  return arguments.size() == 6 && arguments[1] == child_flag;
}

int child_main(std::span<char* const> arguments) {
  const Subject* const subject = harness::find_subject(arguments[3]);
  if (subject == nullptr) {
    fmt::print(stderr, "assay-replay: {} is for its own use\n", child_flag);
    return exit_usage;
  }
  return child_main(arguments, *subject);
}

int child_main(std::span<char* const> arguments, const Subject& subject) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it has a process group of its own: no ^C reaches it
  const auto fd = harness::parse_number<int>(arguments[2]);
  const std::string_view touch = arguments[4];
  const auto repeat = harness::parse_number<std::uint32_t>(arguments[5]);
  if (!fd || !repeat || *repeat == 0) {
    fmt::print(stderr, "assay-replay: {} is for its own use\n", child_flag);
    return exit_usage;
  }
  if (subject.is_process() && !harness::prove_preload(subject)) return skip(install(subject));
  const auto plan = harness::map_plan(*fd);
  if (!plan) {
    fmt::print(stderr, "assay-replay: {}\n", describe(plan.error()));
    return exit_internal;
  }
  auto backing = subject.make({});
  if (!backing) {
    const ErrorCode code = backing.error().code;
    if (subject.needs_driver && !harness::why_no_driver(code).empty()) {
      return skip(harness::why_no_driver(code));
    }
    if (code == ErrorCode::not_supported) return skip(describe(backing.error()));
    return say("error", describe(backing.error()), {.problem = "not made"});
  }
  if (subject.needs_driver && harness::driver_is_model()) {
    return skip(std::string(harness::not_timed_on_model));
  }
  ReplayOptions replay_options;
  replay_options.touch = touch == "none"  ? harness::Touch::none
                         : touch == "all" ? harness::Touch::all
                                          : harness::Touch::first;
  replay_options.repeat = *repeat;
  replay_options.figures = figures_source(subject);
  const ReplayRun run = harness::replay(plan.value(), *backing.value(), replay_options);
  const int code = say(run.problem.empty() ? "ok" : "error", run.problem, run);
  // The row has said it; a subject that lost blocks would break a contract in its destructor.
  if (!run.problem.empty()) std::_Exit(code);
  return code;
}

Json to_json(const Row& row) {
  Json json;
  json["subject"] = row.subject;
  json["status"] = row.status;
  json["reason"] = row.reason;
  for (const auto& [key, value] : row.figures.items()) json[key] = value;
  return json;
}

}  // namespace assay::replay
