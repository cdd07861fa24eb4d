// The process's malloc family as a backing: the C library's, or whatever was preloaded.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <malloc.h>

#include "assay/base/live_count.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {
namespace {

class Malloc final : public Backing {
 public:
  Malloc() noexcept
      : Backing({.id = "malloc",
                 .capabilities = Capabilities::host_access | Capabilities::thread_safe |
                                 Capabilities::resize_moves,
                 .granularity = 1,
                 .natural_alignment = alignof(std::max_align_t)}) {}

 private:
  Block do_allocate(const Request& request, Error& error) noexcept override {
    void* const memory = get(request);
    if (memory == nullptr) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
      error.native = ENOMEM;
      return {};
    }
    live_.add(request.size);
    return {reinterpret_cast<std::uintptr_t>(memory), request.size};
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    live_.remove(release.request.size);
    std::free(pointer_to(block));
    return Freed::now;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return request.size;
  }
  [[nodiscard]] Usage do_usage() const noexcept override {
    const auto total = live_.total();
    return {total.blocks, total.bytes, total.bytes};
  }
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    if (may_move == MayMove::no || needs_aligned_alloc(to)) {
      error = Error::make(ErrorCode::not_supported, "resize", info().id, to.size);
      return {};
    }
    void* const memory = std::realloc(pointer_to(block), plain_size(to));
    if (memory == nullptr) {
      error = Error::make(ErrorCode::out_of_memory, "resize", info().id, to.size);
      error.native = ENOMEM;
      return {};
    }
    live_.resize(from.size, to.size);
    if (to.init == Init::zero && to.size > from.size) {
      std::memset(static_cast<char*>(memory) + from.size, 0, to.size - from.size);
    }
    return {reinterpret_cast<std::uintptr_t>(memory), to.size};
  }

  /// malloc aligns to 16 only what is 16 bytes or more: jemalloc, mimalloc and tcmalloc place
  /// smaller blocks at multiples of 8, which C allows for objects of that size.
  static bool needs_aligned_alloc(const Request& request) noexcept {
    return request.alignment > alignof(std::max_align_t) || request.alignment > request.size;
  }
  static void* get(const Request& request) noexcept {
    if (needs_aligned_alloc(request)) {
      // aligned_alloc wants the size rounded to the alignment (Scudo insists).
      void* const memory =
          std::aligned_alloc(request.alignment, align_up(request.size, request.alignment));
      if (memory != nullptr && request.init == Init::zero) std::memset(memory, 0, request.size);
      return memory;
    }
    return request.init == Init::zero ? std::calloc(1, plain_size(request))
                                      : std::malloc(plain_size(request));
  }
  /// C promises alignment for objects that fit only: jemalloc, mimalloc and tcmalloc align 4 bytes
  /// to 8. A size of at least the alignment gets it.
  static std::size_t plain_size(const Request& request) noexcept {
    return std::max(request.size, request.alignment);
  }
  static void* pointer_to(Block block) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(block.address));
  }

  LiveCount live_;
};

Result<Ref<Backing>> make_malloc(const SubjectContext&) {
  return Ref<Backing>(Ref<Malloc>::adopt(new Malloc));
}

}  // namespace

const Subject& malloc() {
  static constexpr Subject subject{.id = "malloc",
                                   .origin = Origin::system,
                                   .summary = "the C library's malloc",
                                   .make = make_malloc};
  return subject;
}

const Subject& jemalloc() {
  static constexpr Subject subject{.id = "jemalloc",
                                   .origin = Origin::foreign,
                                   .summary = "jemalloc, preloaded in place of malloc",
                                   .make = make_malloc,
                                   .preload = "libjemalloc.so.2",
                                   .package = "libjemalloc2"};
  return subject;
}

const Subject& mimalloc() {
  static constexpr Subject subject{.id = "mimalloc",
                                   .origin = Origin::foreign,
                                   .summary = "mimalloc, preloaded in place of malloc",
                                   .make = make_malloc,
                                   .preload = "libmimalloc.so.2",
                                   .package = "libmimalloc2.0"};
  return subject;
}

const Subject& tcmalloc() {
  static constexpr Subject subject{.id = "tcmalloc",
                                   .origin = Origin::foreign,
                                   .summary = "gperftools' tcmalloc, preloaded in place of malloc",
                                   .make = make_malloc,
                                   .preload = "libtcmalloc_minimal.so.4",
                                   .package = "libtcmalloc-minimal4"};
  return subject;
}

}  // namespace assay::harness::subject_list
