// Stream and Event: counted handles on a context's streams and events.
#pragma once

#include "assay/cuda/context.hpp"

namespace assay::cuda {

class Event;

/// A non-blocking stream of a context. Counted, so that memory may keep its home stream alive.
///
/// **Threads** safe from any thread.
class Stream final : public Counted {
 public:
  /// **Errors** context_lost, out_of_memory, driver_error.
  [[nodiscard]] static Result<Ref<Stream>> make(Ref<PrimaryContext> context) noexcept;

  [[nodiscard]] PrimaryContext& context() const noexcept { return *context_; }
  [[nodiscard]] abi::Stream handle() const noexcept { return handle_; }

  /// Waits until all work submitted so far is done. **Errors** context_lost, driver_error.
  Result<void> synchronize() noexcept;
  /// Is all work done? Starts none and waits for none. **Errors** as synchronize().
  Result<bool> finished() noexcept;
  /// Later work of this stream waits for the event's last record, if it has one. **Cost** none for
  /// the host.
  Result<void> wait(const Event& event) noexcept;

 private:
  Stream(Ref<PrimaryContext> context, abi::Stream handle) noexcept
      : context_(std::move(context)), handle_(handle) {}
  ~Stream() override;

  Ref<PrimaryContext> context_;
  abi::Stream handle_;
};

/// A mark in a stream's order.
class Event final : public Counted {
 public:
  enum class Timing : bool { no, yes };
  [[nodiscard]] static Result<Ref<Event>> make(Ref<PrimaryContext> context,
                                               Timing timing = Timing::no) noexcept;

  [[nodiscard]] PrimaryContext& context() const noexcept { return *context_; }
  [[nodiscard]] abi::Event handle() const noexcept { return handle_; }

  /// Marks the point that the stream's work has come to; replaces an earlier mark. **Errors**
  /// driver_error (400) if the stream is of another context.
  Result<void> record(Stream& stream) noexcept;
  /// Waits until the last mark is reached; an event never recorded is.
  Result<void> synchronize() noexcept;
  Result<bool> finished() noexcept;
  /// Milliseconds from `start` to this event. **Errors** driver_error with 400 unless both were
  /// recorded and have timing, with 600 while one is unfinished.
  Result<float> elapsed_ms_since(Event& start) noexcept;

 private:
  Event(Ref<PrimaryContext> context, abi::Event handle) noexcept
      : context_(std::move(context)), handle_(handle) {}
  ~Event() override;

  Ref<PrimaryContext> context_;
  abi::Event handle_;
};

}  // namespace assay::cuda
