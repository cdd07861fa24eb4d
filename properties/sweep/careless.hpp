// Careless: what the broken backings of the sweep over pools and virtual memory share.
#pragma once

#include <map>
#include <mutex>

#include "scenarios.hpp"

namespace assay::sweep {

/// Device memory as someone in a hurry writes it. Whatever fails once is tried again where nobody
/// can be told, so that what the sweep finds is the flaw and nothing else.
class Careless : public Backing {
 protected:
  using Address = cuda::abi::DevicePointer;
  using Status = cuda::abi::Status;

  Careless(const char* id, std::size_t granularity, std::uint32_t more,
           Ref<cuda::PrimaryContext> context, Ref<cuda::Stream> own)
      : Backing({.id = id,
                 .capabilities = Capabilities::device_access | Capabilities::thread_safe | more,
                 .granularity = granularity,
                 .natural_alignment = 256,
                 .device = context->ordinal()}),
        context_(std::move(context)),
        own_(std::move(own)) {}

  [[nodiscard]] const cuda::abi::DriverTable& table() const noexcept { return context_->table(); }
  Result<void> check(Status status, const char* function) noexcept {
    return context_->check(status, function, info().id);
  }
  /// A call that nobody can be told of: once more if it fails.
  template <class Call>
  static bool insist(Call call) noexcept {
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (call() == Status::success) return true;
    }
    return false;
  }
  /// The same for what needs the context current.
  template <class Action>
  bool in_context(Action action) noexcept {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const auto current = cuda::Current::of(*context_);
      if (!current) continue;
      action();
      return true;
    }
    return false;
  }
  [[nodiscard]] cuda::abi::Stream stream_of(StreamRef stream) const noexcept {
    return stream.handle == nullptr ? own_->handle()
                                    : static_cast<cuda::abi::Stream>(stream.handle);
  }
  Result<void> wait() noexcept {
    auto waited = check(table().cuCtxSynchronize(), "cuCtxSynchronize");
    if (!waited) table().cuCtxSynchronize();
    return waited;
  }

  [[nodiscard]] Usage do_usage() const noexcept override { return {}; }
  Result<void> do_copy_in(Block block, std::size_t offset,
                          std::span<const std::byte> from) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    ASSAY_TRY_VOID(before_copy());
    ASSAY_TRY_VOID(check(table().cuMemcpyHtoDAsync_v2(block.address + offset, from.data(),
                                                      from.size(), copy_stream()),
                         "cuMemcpyHtoDAsync"));
    return wait();
  }
  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override {
    ASSAY_TRY(const cuda::Current current, cuda::Current::of(*context_));
    ASSAY_TRY_VOID(before_copy());
    ASSAY_TRY_VOID(check(
        table().cuMemcpyDtoHAsync_v2(to.data(), block.address + offset, to.size(), copy_stream()),
        "cuMemcpyDtoHAsync"));
    return wait();
  }
  virtual Result<void> before_copy() noexcept { return wait(); }
  [[nodiscard]] virtual cuda::abi::Stream copy_stream() const noexcept { return own_->handle(); }

  Ref<cuda::PrimaryContext> context_;
  Ref<cuda::Stream> own_;
};

}  // namespace assay::sweep
