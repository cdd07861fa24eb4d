#include "case_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/backing/driver_backing.hpp"
#include "assay/harness/die_with_parent.hpp"

namespace assay::sweep {
namespace {

constexpr unsigned case_timeout_s = 20;

const assay_model_control* control_of(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  void* const marker = ::dlsym(handle, cuda::abi::model_marker);
  if (marker == nullptr) return nullptr;
  return reinterpret_cast<const assay_model_control* (*)()>(marker)();
}

std::uint64_t live_objects(const assay_model_control& model, bool contexts_too) {
  std::uint64_t live = 0;
  for (std::uint32_t kind = 0; kind < assay_model_object_count; ++kind) {
    if (kind != assay_model_context || contexts_too) live += model.live_objects(kind);
  }
  return live;
}

std::uint64_t live_bytes(const assay_model_control& model) {
  return model.live_bytes(assay_model_device) + model.live_bytes(assay_model_managed) +
         model.live_bytes(assay_model_pinned) + model.live_bytes(assay_model_pooled) +
         model.live_bytes(assay_model_physical);
}

/// Bytes that the backing says it still holds; what a pool of the driver keeps for later is not
/// its.
std::uint64_t held_bytes(const Backing& backing) {
  const auto* const of_driver = dynamic_cast<const DriverBacking*>(&backing);
  return backing.usage().live_bytes +
         (of_driver == nullptr ? 0 : of_driver->incidents().held_bytes);
}

class CaseProcess {
 public:
  CaseProcess(const Case& which, CaseReport& report)
      : which_(which),
        report_(report),
        judge_(which.injection),
        model_(control_of(std::getenv(cuda::Driver::path_variable))) {}

  void run() {
    if (model_ == nullptr) return judge_.wrong("the library is not the model");
    if (which_.scenario == nullptr) arm();
    const bool in_context = within_context();
    report_.injected = model_->faults_injected();
    report_.errors = judge_.errors();
    report_.diagnoses = model_->diagnosis_count();
    if (report_.diagnoses != 0) {
      judge_.wrong(std::string("the model diagnoses: ") + model_->diagnosis(0));
    }
    if (!in_context) return;
    if (report_.injected == 0) judge_.require(judge_.errors() == 0, "an error without a fault");
    if (report_.leaks != 0) judge_.wrong("memory or handles of the driver stay behind");
  }

  void finish() {
    std::strncpy(report_.what, judge_.what().c_str(), sizeof report_.what - 1);
    report_.finished = 1;
  }

 private:
  void arm() {
    char plan[64];
    const char* const sticky = which_.injection.sticky ? ":sticky" : "";
    std::snprintf(plan, sizeof plan, "*:%llu:%u%s", static_cast<unsigned long long>(which_.k),
                  which_.injection.number(), sticky);
    judge_.require(model_->set_faults(plan) == 0, "the model refuses the fault plan");
  }

  /// True if the scenario could be run at all.
  bool within_context() {
    const auto driver = cuda::Driver::load({});
    if (!driver) return blame_setup(driver.error());
    auto context = cuda::PrimaryContext::retain(driver.value(), 0);
    if (!context) return blame_setup(context.error());
    World world{.context = std::move(context).value(),
                .stream = {},
                .leaf = {},
                .judge = judge_,
                .limit = which_.leaf->limit};
    run_scenario(world);
    const bool lost = world.context->lost();
    world.context = {};
    // A retain is not given back to a driver that answers as if the context were gone.
    const bool may_stay = lost || cuda::ends_context(which_.injection.code);
    if (!may_stay) report_.leaks += live_objects(*model_, true);
    return true;
  }

  /// Loading and retaining may fail only where they are swept themselves.
  bool blame_setup(const Error& error) {
    judge_.require(which_.scenario == nullptr, assay::describe(error).c_str());
    return false;
  }

  void run_scenario(World& world) {
    auto stream = cuda::Stream::make(world.context);
    auto leaf = which_.leaf->make(world.context);
    if (!leaf && leaf.error().code == ErrorCode::not_supported && leaf.error().native == 0) {
      // Unless it only seems so, because the question of it was made to fail.
      report_.skipped = model_->faults_injected() == 0 ? 1 : 0;
      return;
    }
    if (!judge_.good(stream) || !judge_.good(leaf)) return;
    world.stream = std::move(stream).value();
    world.leaf = std::move(leaf).value();
    if (which_.scenario != nullptr) {
      arm();
      which_.scenario->run(world);
    }
    // A context that is gone keeps what could not be freed: exactly what the backing says it holds.
    const std::uint64_t held = held_bytes(*world.leaf);
    const bool in_order = world.leaf->can(Capabilities::stream_ordered);
    world.leaf = {};
    world.stream = {};
    if (world.context->lost()) {
      // A free in stream order may be queued on a stream that will never come to it.
      const std::uint64_t live = live_bytes(*model_);
      if (in_order ? live < held : live != held) ++report_.leaks;
    } else {
      report_.leaks += live_objects(*model_, false);
    }
  }

  const Case& which_;
  CaseReport& report_;
  Judge judge_;
  const assay_model_control* model_;
};

/// Where cases say their last words; the warning that each prints about the model goes there too.
int words_of_cases() {
  static const int fd = ::memfd_create("assay-sweep-words", MFD_CLOEXEC);
  return fd;
}

/// The last line that the case wrote.
std::string last_words() {
  char text[1024];
  const off_t size = ::lseek(words_of_cases(), 0, SEEK_END);
  const off_t from = size > off_t{sizeof text} ? size - off_t{sizeof text} : 0;
  const ssize_t got = ::pread(words_of_cases(), text, sizeof text, from);
  std::string words(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words.substr(words.rfind('\n') + 1);
}

[[noreturn]] void be_the_case(const Case& which, CaseReport& report, pid_t parent) {
  ::dup2(words_of_cases(), STDERR_FILENO);
  harness::die_with_parent(parent);
  ::alarm(case_timeout_s);
  {
    CaseProcess process(which, report);
    process.run();
    process.finish();
  }
  ::_exit(0);
}

std::string ending_of(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with exit code {} half way", WEXITSTATUS(status));
}

/// What the child that asks leaves for its parent. Plain data.
struct Answer {
  bool finished = false;
  bool no_device = false;
  char why[512] = {};
};

[[noreturn]] void ask(Answer& answer, pid_t parent) {
  ::dup2(words_of_cases(), STDERR_FILENO);
  harness::die_with_parent(parent);
  ::alarm(case_timeout_s);
  std::string why;
  const char* const path = std::getenv(cuda::Driver::path_variable);
  if (path == nullptr || control_of(path) == nullptr) {
    why = "this is not the driver's model: no other driver fails when it is told to";
  } else if (const auto driver = cuda::Driver::load({}); !driver) {
    why = assay::describe(driver.error());
    answer.no_device = driver.error().code == ErrorCode::no_device;
  }
  why.copy(answer.why, sizeof answer.why - 1);
  answer.finished = true;
  ::_exit(0);
}

/// The lines that the model itself wrote, not what the loader warns of.
std::string words_of_model() {
  char text[4096];
  const ssize_t got = ::pread(words_of_cases(), text, sizeof text, 0);
  const std::string_view words(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  std::string told;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('\n', at), words.size());
    const std::string_view line = words.substr(at, end - at);
    if (line.starts_with("assay model:")) told += std::string(line) + "\n";
    at = end + 1;
  }
  return told;
}

}  // namespace

Unusable ask_driver() {
  void* const shared =
      ::mmap(nullptr, sizeof(Answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {.why = "no memory to share with a case", .model_said = {}};
  auto* const answer = ::new (shared) Answer;
  const pid_t parent = ::getpid();
  (void)!::ftruncate(words_of_cases(), 0);
  const pid_t child = ::fork();
  if (child == 0) ask(*answer, parent);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Unusable found{answer->why, answer->no_device, words_of_model()};
  if (!answer->finished) {
    found.why = child > 0 ? ending_of(status) : "no process could be forked";
  }
  ::munmap(shared, sizeof(Answer));
  return found;
}

std::string describe(const Case& which) {
  return fmt::format("{}/{}, call {} answers {}{}", which.leaf->name,
                     which.scenario == nullptr ? "making" : which.scenario->name, which.k,
                     which.injection.number(), which.injection.sticky ? " from then on" : "");
}

CaseReport run_case(const Case& which) {
  static void* const shared = ::mmap(nullptr, sizeof(CaseReport), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CaseReport report;
  if (shared == MAP_FAILED) {
    std::strcpy(report.what, "no memory to share with a case");
    return report;
  }
  auto* const seen = ::new (shared) CaseReport;
  const pid_t parent = ::getpid();
  (void)!::ftruncate(words_of_cases(), 0);
  const pid_t child = ::fork();
  if (child == 0) be_the_case(which, *seen, parent);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  report = *seen;
  if (report.finished == 0) {
    const std::string ending =
        child > 0 ? ending_of(status) + ": " + last_words() : "the case could not be forked";
    std::strncpy(report.what, ending.c_str(), sizeof report.what - 1);
  }
  return report;
}

}  // namespace assay::sweep
