#include "run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "assay/base/contract.hpp"

namespace assay::ordering {

namespace {

using namespace cuda::abi;

constexpr std::size_t block_bytes = Memory::block_bytes;
constexpr std::size_t half_bytes = block_bytes / 2;

/// Diagnoses are counted here, not read by a person: they would fill the log.
class QuietStandardError {
 public:
  QuietStandardError() {
    std::fflush(stderr);
    saved_ = dup(STDERR_FILENO);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
    close(null);
  }
  ~QuietStandardError() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
  }
  QuietStandardError(const QuietStandardError&) = delete;
  QuietStandardError& operator=(const QuietStandardError&) = delete;

 private:
  int saved_;
};

constexpr std::array counted{assay_model_context, assay_model_stream, assay_model_event,
                             assay_model_pinned,  assay_model_pool,   assay_model_pooled};
using Counts = std::array<std::uint64_t, counted.size()>;

Counts live(const assay_model_control& control) {
  Counts counts{};
  for (std::size_t i = 0; i < counted.size(); ++i) counts[i] = control.live_objects(counted[i]);
  return counts;
}

/// Both halves of a block as the program's calls, one after the other, leave them.
using Content = std::array<std::optional<std::uint8_t>, 2>;

class World {
 public:
  World(const Ref<cuda::Driver>& driver, const Program& program, Through through)
      : cu_(driver->table()),
        control_(*driver->model()),
        program_(program),
        memory_(make_memory(driver, through)) {
    for (std::size_t i = 1; i < streams_.size(); ++i) make_stream(i);
    for (Event& event : events_) must(cu_.cuEventCreate(&event, event_disable_timing));
    std::size_t reads = 0;
    for (const Command& command : program.commands) {
      if (command.action == Action::read) ++reads;
      if (command.action == Action::allocate) ++blocks_;
    }
    void* room = nullptr;
    must(cu_.cuMemHostAlloc(&room, (reads + 1) * block_bytes, 0));
    room_ = static_cast<std::uint8_t*>(room);
    addresses_.resize(blocks_);
    freed_.resize(blocks_);
    content_.resize(blocks_);
  }

  Outcome run() {
    Outcome outcome;
    for (const Command& command : program_.commands) {
      const std::uint64_t first = control_.calls("*") + 1;
      const Status status = command.implied ? Status::success : call(command);
      outcome.calls.emplace_back(first, control_.calls("*") + 1);
      if (status != Status::success) {
        outcome.failure =
            fmt::format("{} answered {}", to_text(command), static_cast<std::uint32_t>(status));
        break;
      }
      ++outcome.answered;
    }
    const Status last = cu_.cuCtxSynchronize();
    if (outcome.failure.empty() && last != Status::success) {
      outcome.failure = fmt::format("the last wait answered {}", static_cast<std::uint32_t>(last));
    }
    if (outcome.failure.empty()) outcome.wrong_content = check_contents();
    for (std::uint64_t i = 0; i < control_.diagnosis_count(); ++i) {
      outcome.diagnoses.push_back(read_diagnosis(control_.diagnosis(i)));
    }
    return outcome;
  }

  void clean_up(bool poisoned) {
    if (poisoned) {
      // Nothing works in the context any more, and what was not freed outlives it.
      memory_->renew_context();
      for (std::size_t i = 0; i < blocks_; ++i) {
        if (!freed_[i] && addresses_[i] != 0) static_cast<void>(cu_.cuMemFree_v2(addresses_[i]));
      }
    } else {
      for (std::size_t i = 1; i < streams_.size(); ++i) must(cu_.cuStreamDestroy_v2(streams_[i]));
      for (const Event event : events_) must(cu_.cuEventDestroy_v2(event));
      must(cu_.cuMemFreeHost(room_));
    }
  }

 private:
  void make_stream(std::size_t index) {
    must(cu_.cuStreamCreate(&streams_[index], program_.blocking[index] ? 0 : stream_non_blocking));
  }

  Status renew(std::size_t index) {
    const Status status = cu_.cuStreamDestroy_v2(streams_[index]);
    if (status == Status::success) make_stream(index);
    return status;
  }

  /// Host functions run on a thread of the driver's, so it may take any number of queries.
  template <class Query>
  static Status ask(Query query) {
    for (;;) {
      const Status status = query();
      if (status != Status::not_ready) return status;
      std::this_thread::yield();
    }
  }

  Status set(const Command& command, Stream stream) {
    Content& content = content_[command.block];
    if (command.part != 2) content[0] = command.value;
    if (command.part != 1) content[1] = command.value;
    const std::size_t skipped = command.part == 2 ? half_bytes : 0;
    return cu_.cuMemsetD8Async(addresses_[command.block] + skipped, command.value,
                               command.part == 0 ? block_bytes : half_bytes, stream);
  }

  Status read(const Command& command, Stream stream) {
    std::uint8_t* to = room_ + expected_.size() * block_bytes;
    expected_.push_back(content_[command.block]);
    return cu_.cuMemcpyDtoHAsync_v2(to, addresses_[command.block], block_bytes, stream);
  }

  Status free(const Command& command, Stream stream) {
    const DevicePointer address = addresses_[command.block];
    const Status status =
        command.action == Action::free ? memory_->free(address, stream) : cu_.cuMemFree_v2(address);
    freed_[command.block] = status == Status::success;
    return status;
  }

  Status call(const Command& command) {
    const Stream stream = streams_[command.stream];
    const Event event = events_[command.event];
    switch (command.action) {
      case Action::nothing: return Status::success;
      case Action::allocate: return memory_->allocate(addresses_[command.block], stream);
      case Action::set: return set(command, stream);
      case Action::copy:
        content_[command.block] = content_[command.source];
        return cu_.cuMemcpyDtoDAsync_v2(addresses_[command.block], addresses_[command.source],
                                        block_bytes, stream);
      case Action::read: return read(command, stream);
      case Action::free:
      case Action::free_now: return free(command, stream);
      case Action::record: return cu_.cuEventRecord(event, stream);
      case Action::wait_event: return cu_.cuStreamWaitEvent(stream, event, 0);
      case Action::sync_stream: return cu_.cuStreamSynchronize(stream);
      case Action::sync_event: return cu_.cuEventSynchronize(event);
      case Action::sync_context: return cu_.cuCtxSynchronize();
      case Action::query_stream: return ask([&] { return cu_.cuStreamQuery(stream); });
      case Action::query_event: return ask([&] { return cu_.cuEventQuery(event); });
      case Action::host_function:
        ++functions_launched_;
        return cu_.cuLaunchHostFunc(
            stream, [](void* count) { ++*static_cast<std::size_t*>(count); }, &functions_called_);
      case Action::renew_stream: return renew(command.stream);
    }
    return Status::success;
  }

  [[nodiscard]] std::string check_contents() const {
    if (functions_called_ != functions_launched_) return "a host function was not called";
    if (!program_.writes_ordered) return "";
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      for (std::size_t k = 0; k < block_bytes; ++k) {
        const auto wanted = expected_[i][k / half_bytes];
        const std::uint8_t got = room_[i * block_bytes + k];
        if (!wanted || got == *wanted) continue;
        return fmt::format("read {} gave {} at byte {}, not {}", i, got, k, *wanted);
      }
    }
    return "";
  }

  const DriverTable& cu_;
  const assay_model_control& control_;
  const Program& program_;
  std::unique_ptr<Memory> memory_;
  std::array<Stream, Program::stream_max> streams_{};
  std::array<Event, Program::event_count> events_{};
  std::size_t blocks_ = 0;
  std::vector<DevicePointer> addresses_;
  std::vector<bool> freed_;
  std::vector<Content> content_;
  std::uint8_t* room_ = nullptr;  ///< a block for each read
  std::vector<Content> expected_;
  std::size_t functions_launched_ = 0;
  std::size_t functions_called_ = 0;  ///< by the driver's thread, before a wait that sees it
};

}  // namespace

Outcome run(const Ref<cuda::Driver>& driver, const Program& program, Through through) {
  const assay_model_control& control = *driver->model();
  const QuietStandardError quiet;
  control.forget_diagnoses();
  const Counts before = live(control);
  Outcome outcome;
  {
    World world(driver, program, through);
    outcome = world.run();
    world.clean_up(!outcome.failure.empty());
  }
  const Counts after = live(control);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (after[i] == before[i]) continue;
    outcome.left_alive += fmt::format("{} objects of kind {} before, {} after; ", before[i],
                                      static_cast<std::uint32_t>(counted[i]), after[i]);
  }
  control.forget_diagnoses();
  return outcome;
}

const Ref<cuda::Driver>& model(const char* path) {
  static const Ref<cuda::Driver> loaded = [path] {
    const char* chosen = std::getenv("ASSAY_ORDERING_MODEL");
    auto driver = cuda::Driver::load({chosen != nullptr ? chosen : path});
    ASSAY_CONTRACT(driver && driver.value()->model() != nullptr, "no model at that path");
    return std::move(driver).value();
  }();
  return loaded;
}

Diagnosis read_diagnosis(const std::string& text) {
  Diagnosis diagnosis{text, text.substr(0, text.find(':')), {}};
  static constexpr std::string_view mark = " (call ";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    std::size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 ||
                         text[begin - 1] == '_')) {
      --begin;
    }
    NamedCall call{text.substr(begin, at - begin), 0};
    std::from_chars(text.data() + at + mark.size(), text.data() + text.size(), call.number);
    diagnosis.calls.push_back(std::move(call));
  }
  return diagnosis;
}

}  // namespace assay::ordering
