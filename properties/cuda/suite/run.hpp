// Run: what the steps of a test work with.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <string>

#include "suite/codes.hpp"
#include "suite/session.hpp"
#include "suite/touch.hpp"

namespace assay::conformance {

namespace abi = cuda::abi;

/// A preparation failed, so the test says nothing about its rule.
struct SetupFailed : std::exception {
  explicit SetupFailed(std::string text) : message(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

/// The test cannot run here, which only its steps could find out.
struct Skipped {
  std::string why;
};

/// The process of one test. Each observation is written to standard output at once, so that a
/// crash leaves what was seen before it. Objects are not given back: the process ends.
class Run {
 public:
  explicit Run(const Session& session);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const Session& session;
  const abi::DriverTable& cu;
  const assay_model_control* const model;
  const abi::Context context;

  void code(const char* step, Status status);
  void holds(const char* step, bool truth);
  void value(const char* step, std::int64_t number);
  void signal(const char* step, int number);
  /// Anything that helps a reader; never judged.
  void note(const std::string& text);
  /// Preparation: anything but success ends the test as FAIL, with `what`.
  void must(Status status, const char* what);
  [[noreturn]] void skip(std::string why);
  /// Skips where the model was told to run work by itself: the test needs work that is late.
  void need_lazy_model();

  // Preparations that must succeed.
  [[nodiscard]] DevicePointer device(std::size_t size);
  /// Managed memory, kept below the cap of the whole suite.
  [[nodiscard]] DevicePointer managed(std::size_t size, unsigned flags = abi::mem_attach_global);
  [[nodiscard]] std::byte* pinned(std::size_t size, unsigned flags = 0);
  /// Page-aligned host memory that the driver does not know.
  [[nodiscard]] std::byte* pageable(std::size_t size);
  [[nodiscard]] std::byte* registered(std::size_t size, unsigned flags = 0);
  [[nodiscard]] abi::Stream stream(unsigned flags = abi::stream_non_blocking);
  [[nodiscard]] abi::Event event(unsigned flags = abi::event_disable_timing);
  [[nodiscard]] abi::Context other_context();

  /// Fills device or managed memory with a byte and waits.
  void fill(DevicePointer address, unsigned char byte, std::size_t size);
  /// Are all bytes of device or managed memory `byte`, once all work is done?
  [[nodiscard]] bool filled(DevicePointer address, unsigned char byte, std::size_t size);
  void wait();

 private:
  std::size_t managed_live_ = 0;
};

[[nodiscard]] inline std::byte* host(DevicePointer address) noexcept {
  return reinterpret_cast<std::byte*>(address);
}
[[nodiscard]] inline DevicePointer address_of(const void* pointer) noexcept {
  return reinterpret_cast<DevicePointer>(pointer);
}

inline constexpr std::size_t KiB = 1024;
inline constexpr std::size_t MiB = 1024 * KiB;
inline constexpr std::size_t page = 64 * KiB;  ///< a multiple of every page size in use

/// Runs `body` on a thread of its own and waits for it.
void on_other_thread(const std::function<void()>& body);

/// What exit() calls last, after the driver's own handlers. Set by a test of that moment.
void at_process_end(void (*hook)());

/// A gate: its stream's later work waits until open(). All gates are opened by the watchdog, by
/// open_all_gates and by their destructors.
class Gate {
 public:
  Gate(Run& run, abi::Stream stream);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() noexcept;

 private:
  std::byte* flag_;
};

void open_all_gates(const assay_model_control* model) noexcept;

}  // namespace assay::conformance
