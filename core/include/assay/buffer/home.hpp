// Home: where a value's forks, clones and growth go, and by which policy.
#pragma once

#include <cstddef>

#include "assay/backing/backing.hpp"
#include "assay/base/node_pool.hpp"

namespace assay {

/// Are a block's written bytes overwritten before the block goes back?
enum class Wipe : bool { no, on_release };

/// What a value inherits: backing, alignment, wipe policy and stream, counted as one record.
///
/// **Invariants** never changes; keeps its backing alive. **Threads** safe from any thread.
/// **Cost** inheriting is one pointer and one count; none for the default host.
class Home final : public Counted {
 public:
  struct Options {
    std::size_t alignment = 16;  ///< of every block: a power of two up to 1 GiB
    Wipe wipe = Wipe::no;
    StreamRef stream{};
  };

  /// **Errors** invalid_argument without a backing, invalid_alignment, out_of_memory.
  [[nodiscard]] static Result<Ref<Home>> make(Ref<Backing> backing,
                                              const Options& options) noexcept;
  [[nodiscard]] static Result<Ref<Home>> make(Ref<Backing> backing) noexcept;

  /// The default: host memory, alignment 16, no wipe. Immortal, so never counted.
  [[nodiscard]] static Home& host() noexcept;

  [[nodiscard]] Backing& backing() const noexcept { return *backing_; }
  [[nodiscard]] std::size_t alignment() const noexcept { return options_.alignment; }
  [[nodiscard]] bool wipes() const noexcept { return options_.wipe == Wipe::on_release; }
  [[nodiscard]] StreamRef stream() const noexcept { return options_.stream; }

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return node_pool::allocate(size);
  }
  static void* operator new(std::size_t, void* place) noexcept { return place; }
  static void operator delete(void* node) noexcept { node_pool::deallocate(node, sizeof(Home)); }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(Home));
  }
  static void operator delete(void*, void*) noexcept {}

 private:
  Home(Ref<Backing> backing, const Options& options, Immortal immortal) noexcept
      : Counted(immortal), backing_(std::move(backing)), options_(options) {}
  ~Home() override = default;

  Ref<Backing> backing_;
  Options options_;
};

}  // namespace assay
