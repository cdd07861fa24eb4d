#include "process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "assay/cuda/abi/model_control.hpp"
#include "host_faults.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

constinit std::atomic<pid_t> load_pid{0};
constinit std::atomic<pid_t> init_pid{0};
constinit std::atomic<bool> ending{false};
constinit Site init_site;  ///< written before init_pid

void mark_ending() {
  if (getpid() != init_pid.load()) return;
  ending.store(true, std::memory_order_release);
  stop_streams();
}

/// `%p` in the path becomes the process id, so that several processes do not share a file.
std::string report_path() {
  const char* text = std::getenv(abi::model_report_variable);
  std::string path = text == nullptr ? "" : text;
  const std::size_t at = path.find("%p");
  if (at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
  return path;
}

[[gnu::constructor]] void note_load() {
  load_pid = getpid();
}

/// The last act of the process. Appends, so that a parent and a child may name one file.
[[gnu::destructor]] void write_exit_report() {
  const pid_t owner = init_pid != 0 ? init_pid.load() : load_pid.load();
  const std::string path = report_path();
  if (owner != getpid() || path.empty()) return;
  if (path == "-") {
    write_report(STDERR_FILENO);  // there is nowhere to say that it failed
    return;
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || !write_report(fd)) {
    const std::string text = std::string("assay model: ") + abi::model_report_variable +
                             ": the report cannot be written to " + path + ": " +
                             std::strerror(errno) + "\n";
    (void)!write(STDERR_FILENO, text.data(), text.size());
  }
  if (fd >= 0) close(fd);
}

}  // namespace

void mark_initialised(const Site& site) noexcept {
  static std::once_flag once;
  std::call_once(once, [&] {
    init_site = site;
    init_pid.store(getpid(), std::memory_order_release);
    std::atexit(mark_ending);
    watch_host_faults();
  });
}

const Site& initialiser() noexcept {
  return init_site;
}

int initialiser_process() noexcept {
  return init_pid.load(std::memory_order_acquire);
}

bool initialised() noexcept {
  return init_pid.load(std::memory_order_acquire) != 0;
}

bool in_forked_child() noexcept {
  const pid_t owner = init_pid.load(std::memory_order_acquire);
  return owner != 0 && owner != getpid();
}

bool shutting_down() noexcept {
  return ending.load(std::memory_order_acquire);
}

bool write_report(int fd) noexcept {
  const std::string text = report_text();
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace assay::cuda::model
