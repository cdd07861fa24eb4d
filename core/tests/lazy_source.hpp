// LazySource: bytes out of the host's reach, as a file or a device would hold them, watched.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

#include "assay/backing/source.hpp"
#include "assay/buffer/bytes.hpp"
#include "checking_backing.hpp"

namespace assay::test {

class LazySource final : public Source {
 public:
  static Ref<LazySource> make(std::vector<std::byte> content) {
    return Ref<LazySource>::adopt(new LazySource(std::move(content)));
  }
  [[nodiscard]] Block block() const { return {nominal, content_.size()}; }
  [[nodiscard]] std::span<const std::byte> content() const { return content_; }

  struct Read {
    std::size_t offset;
    std::size_t size;
    friend bool operator==(const Read&, const Read&) = default;
  };
  [[nodiscard]] std::vector<Read> reads() const {
    const std::scoped_lock lock(mutex_);
    return reads_;
  }
  [[nodiscard]] std::size_t read_count() const { return reads().size(); }
  [[nodiscard]] std::uint64_t releases() const { return releases_.load(); }

  /// The `nth` read from now brings half of its bytes and fails, once; 0 cancels.
  void fail_nth(std::uint64_t nth) { fail_in_ = nth; }
  [[nodiscard]] bool failure_pending() const { return fail_in_ != 0; }
  /// Every read fails until told otherwise.
  void fail_all(bool fail) { fail_all_ = fail; }

  /// Reads wait at a gate: `wait_for_reader` returns when one has come, `open_gate` lets all pass.
  void close_gate() {
    const std::scoped_lock lock(mutex_);
    gate_open_ = false;
  }
  void open_gate() {
    const std::scoped_lock lock(mutex_);
    gate_open_ = true;
    changed_.notify_all();
  }
  void wait_for_reader() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ != 0; });
  }

 private:
  static constexpr std::uint64_t nominal = 4096;

  explicit LazySource(std::vector<std::byte> content)
      : Source({.id = "lazy_source", .capabilities = Capabilities::thread_safe}),
        content_(std::move(content)) {}

  Result<void> do_copy_out(Block block, std::size_t offset,
                           std::span<std::byte> to) noexcept override {
    std::unique_lock lock(mutex_);
    reads_.push_back({offset, to.size()});
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return gate_open_; });
    --waiting_;
    const bool fails = fail_all_ || (fail_in_ != 0 && --fail_in_ == 0);
    const std::size_t brought = fails ? to.size() / 2 : to.size();
    const auto start = static_cast<std::ptrdiff_t>(offset);
    std::copy_n(content_.begin() + start, brought, to.begin());
    if (!fails && block == this->block()) return {};
    Error error = Error::make(ErrorCode::read_failed, "read", info().id, to.size());
    error.native = 5;
    return error;
  }
  Freed do_deallocate(Block, const Release&) noexcept override {
    ++releases_;
    return Freed::now;
  }

  std::vector<std::byte> content_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Read> reads_;
  std::atomic<std::uint64_t> releases_{0};
  std::atomic<std::uint64_t> fail_in_{0};
  std::atomic<bool> fail_all_{false};
  bool gate_open_ = true;
  int waiting_ = 0;
};

/// A lazy value over `source`, at home on `home`.
inline Bytes lazy_bytes(const Ref<LazySource>& source, Home& home = Home::host()) {
  return Bytes::from_source(source, source->block(), AllocationProperty::file, home).value();
}

}  // namespace assay::test
