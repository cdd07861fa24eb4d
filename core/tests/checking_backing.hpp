// CheckingBacking: a backing that remembers every block, looks at it just before it is freed, and
// fails on request.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "assay/backing/backing.hpp"
#include "assay/base/system.hpp"

namespace assay::test {

class CheckingBacking final : public Backing {
 public:
  /// A block as it was just before it went back.
  struct Freed {
    Request request;
    std::size_t capacity;
    bool known_zero;
    std::vector<std::byte> bytes;    ///< the whole block, if `keep_bytes`
    std::size_t resident_pages = 0;  ///< pages of it that exist, if `count_pages`

    [[nodiscard]] bool all_zero() const {
      return std::all_of(bytes.begin(), bytes.end(), [](auto b) { return b == std::byte{0}; });
    }
  };
  struct Options {
    std::byte fresh_fill{0xcd};  ///< what undefined bytes of a fresh block hold
    bool keep_bytes = true;
    bool count_pages = false;
    bool reuse_addresses = false;  ///< hand the last freed block of that shape out again at once
    bool touch_fresh = true;       ///< false: leave fresh memory as the system gives it
  };

  static Ref<CheckingBacking> make() { return make(Options{}); }
  static Ref<CheckingBacking> make(const Options& options) {
    return Ref<CheckingBacking>::adopt(new CheckingBacking(options));
  }
  ~CheckingBacking() override {
    ASSAY_CONTRACT(live_.empty(), "checking backing destroyed with live blocks");
    for (const Parked& parked : parked_) std::free(parked.memory);
  }

  /// The `nth` allocation or growth from now fails, once; 0 cancels.
  void fail_nth(std::uint64_t nth) { fail_in_ = nth; }
  [[nodiscard]] bool failure_pending() const { return fail_in_ != 0; }

  std::vector<Freed> freed;
  std::uint64_t allocations = 0;
  std::uint64_t calls = 0;            ///< allocations tried, failed ones included
  std::size_t fill_limit = SIZE_MAX;  ///< mutants only: a fill stops after so many bytes
  std::uint64_t filled_bytes = 0;     ///< through Source::fill
  std::vector<std::string> faults;    ///< what a caller did wrong

 private:
  struct Parked {
    void* memory;
    std::size_t capacity;
    std::size_t alignment;
  };
  struct Live {
    Request request;
    std::size_t capacity;
  };

  explicit CheckingBacking(const Options& options)
      : Backing({.id = "checking",
                 .capabilities = Capabilities::host_access | Capabilities::thread_safe |
                                 Capabilities::resize_in_place,
                 .granularity = 16,
                 .natural_alignment = 16}),
        options_(options) {}

  static std::size_t granted(const Request& request) {
    return align_up(std::max(request.size, request.reserve), 16);
  }
  static std::byte* host(Block block) {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(block.address));
  }
  bool fails() {
    ++calls;
    return fail_in_ != 0 && --fail_in_ == 0;
  }

  void* memory_for(const Request& request, std::size_t capacity) {
    const auto fits = [&](const Parked& p) {
      return p.capacity == capacity && p.alignment == request.alignment;
    };
    const auto found = std::find_if(parked_.begin(), parked_.end(), fits);
    if (found != parked_.end()) {
      void* const memory = found->memory;
      parked_.erase(found);
      return memory;
    }
    const std::size_t alignment = std::max<std::size_t>(request.alignment, 16);
    return std::aligned_alloc(alignment, align_up(capacity, alignment));
  }

  Block do_allocate(const Request& request, Error& error) noexcept override {
    const std::scoped_lock lock(mutex_);
    const std::size_t capacity = granted(request);
    void* const memory = fails() ? nullptr : memory_for(request, capacity);
    if (memory == nullptr) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
      return {};
    }
    ++allocations;
    if (options_.touch_fresh) {
      const int fill = request.init == Init::zero ? 0 : std::to_integer<int>(options_.fresh_fill);
      std::memset(memory, fill, capacity);
    }
    const Block block{reinterpret_cast<std::uintptr_t>(memory), capacity};
    live_[block.address] = {request, capacity};
    return block;
  }

  std::size_t resident_pages(Block block) const {
    const std::size_t page = page_size();
    const std::size_t first = align_up(block.address, page);
    const std::size_t last = (block.address + block.capacity) & ~(page - 1);
    if (last <= first) return 0;
    std::vector<unsigned char> pages((last - first) / page);
    mincore(reinterpret_cast<void*>(first), last - first, pages.data());
    return static_cast<std::size_t>(
        std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
  }

  assay::Freed do_deallocate(Block block, const Release& release) noexcept override {
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(block.address);
    if (found == live_.end() || found->second.capacity != block.capacity) {
      faults.emplace_back("free of a block that is not live");
      return assay::Freed::failed;
    }
    const Request& made = found->second.request;
    const Request& told = release.request;
    if (made.size != told.size || made.alignment != told.alignment ||
        made.reserve != told.reserve || made.init != told.init) {
      faults.emplace_back("free with another request than the one that made the block");
    }
    Freed seen{told, block.capacity, release.known_zero, {}, 0};
    if (options_.count_pages) seen.resident_pages = resident_pages(block);
    if (options_.keep_bytes) seen.bytes.assign(host(block), host(block) + block.capacity);
    if (seen.known_zero && options_.keep_bytes && !seen.all_zero()) {
      faults.emplace_back("a block said to be zero is not");
    }
    freed.push_back(std::move(seen));
    live_.erase(found);
    if (options_.reuse_addresses) {
      parked_.push_back({host(block), block.capacity, told.alignment});
    } else {
      std::free(host(block));
    }
    return assay::Freed::now;
  }

  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return granted(request);
  }
  [[nodiscard]] Usage do_usage() const noexcept override {
    const std::scoped_lock lock(mutex_);
    Usage usage;
    for (const auto& [address, live] : live_) {
      ++usage.live_blocks;
      usage.live_bytes += live.capacity;
    }
    usage.reserved_bytes = usage.live_bytes;
    return usage;
  }

  Block do_resize(Block block, const Request& from, const Request& to, MayMove,
                  Error& error) noexcept override {
    const std::scoped_lock lock(mutex_);
    Live& live = live_.at(block.address);
    if (live.request.size != from.size || live.request.reserve != from.reserve) {
      faults.emplace_back("resize from another request than the one that made the block");
    }
    if (to.size > block.capacity || fails()) {
      error = Error::make(ErrorCode::not_supported, "resize in place", info().id, to.size);
      error.limit = block.capacity;
      return {};
    }
    if (to.init == Init::zero && to.size > from.size) {
      std::memset(host(block) + from.size, 0, to.size - from.size);
    }
    live.request = to;
    return block;
  }

  Result<void> do_fill(Block block, std::size_t offset, std::size_t size,
                       std::byte value) noexcept override {
    const std::scoped_lock lock(mutex_);
    const std::size_t count = std::min(size, fill_limit);
    filled_bytes += count;
    if (count != 0) std::memset(host(block) + offset, std::to_integer<int>(value), count);
    return {};
  }

  Options options_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Live> live_;
  std::vector<Parked> parked_;
  std::uint64_t fail_in_ = 0;
};

/// The bytes `first`, `first + 1`, ...
inline std::vector<std::byte> counting(std::size_t size, unsigned first = 1) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((first + i) % 251 + 1);  // never zero
  }
  return bytes;
}

}  // namespace assay::test
