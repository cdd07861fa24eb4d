#include "program/child.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "suite/observation.hpp"
#include "suite/run.hpp"

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

void (*end_hook)() = nullptr;

void call_end_hook() {
  if (end_hook != nullptr) end_hook();
}

/// Opens every gate if the test takes too long.
class Watchdog {
 public:
  explicit Watchdog(const assay_model_control* model)
      : thread_([this, model] {
          std::unique_lock lock(mutex_);
          const auto limit = std::chrono::seconds(gates_open_after_s);
          if (!done_.wait_for(lock, limit, [this] { return ended_; })) {
            say_note("the watchdog opened all gates");
            open_all_gates(model);
          }
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    done_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool ended_ = false;
  std::thread thread_;
};

void run_steps(const Test& test, const Session& session) {
  Run run(session);
  try {
    if (test.call != nullptr) {
      run.code("status", test.call(run));
    } else {
      test.steps(run);
    }
    say_finished();
  } catch (const SetupFailed& failed) {
    say_setup_failed(failed.message);
  } catch (const Skipped& skipped) {
    say_skipped(skipped.why);
  }
  open_all_gates(session.model);
}

/// FNV-1a of a text, as 16 hexadecimal digits.
std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211u;
  return fmt::format("{:016x}", hash);
}

}  // namespace

void at_process_end(void (*hook)()) {
  end_hook = hook;
}

int run_one(const Test& test, const std::string& driver_path) {
  std::atexit(call_end_hook);  // before the driver is loaded: called after its own handlers
  auto session = open_session(driver_path, test.needs.start);
  if (!session) {
    session.error().nothing_to_run ? say_skipped(session.error().why)
                                   : say_setup_failed(session.error().why);
    return 0;
  }
  if (const std::string reason = unmet(test.needs, *session); !reason.empty()) {
    say_skipped(reason);
    return 0;
  }
  const Watchdog watchdog(session->model);
  run_steps(test, *session);
  return 0;
}

int print_facts(const std::string& driver_path) {
  const auto session = open_session(driver_path, Start::initialised);
  Json facts;
  if (!session) {
    const NoSession& none = session.error();
    facts[none.nothing_to_run ? "nothing" : none.unusable ? "unusable" : "broken"] = none.why;
    fmt::print("{}\n", facts.dump(-1, ' ', false, Json::error_handler_t::replace));
    return none.nothing_to_run ? 77 : none.unusable ? 2 : 1;
  }
  facts["driver"] = session->driver->kind();
  facts["driver_version"] = session->version;
  facts["profile"] = session->driver->profile();
  facts["device"] = session->facts.name;
  facts["regime"] = cuda::name_of(session->facts.regime);
  facts["rules"] = "";
  if (session->model != nullptr && session->model->rules != nullptr) {
    facts["rules"] = fingerprint(session->model->rules());
    facts["rule_list"] = session->model->rules();
  }
  Json& attributes = facts["attributes"] = Json::object();
  for (std::size_t i = 0; i < cuda::attribute_count; ++i) {
    attributes[cuda::attribute_rows()[i].name] = session->facts.attributes[i];
  }
  fmt::print("{}\n", facts.dump());
  return 0;
}

}  // namespace assay::conformance
