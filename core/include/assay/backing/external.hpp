// external: memory that someone else owns, given back through a function of theirs.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "assay/backing/source.hpp"
#include "assay/base/node_pool.hpp"

namespace assay {

/// Where the bytes of a value are now. Advisory: it tells a consumer whether staging pays.
enum class AllocationProperty : std::uint8_t {
  native,  ///< ordinary host memory
  file,    ///< a file, or a mapping of one
  pinned,  ///< host memory that a device can reach
  device,  ///< on a device, out of the host's reach
  other,
};
[[nodiscard]] const char* name_of(AllocationProperty property) noexcept;

/// What a foreign owner allows.
enum class ExternalAccess : bool {
  immutable,  ///< never written, not even wiped: values on it are born shared, a write forks
  writable,   ///< handed over for good: values on it are born exclusive
};

/// A range of foreign memory and how to give it back.
struct ExternalMemory {
  using ReleaseFunction = void (*)(void* context, std::span<std::byte> memory) noexcept;

  std::span<std::byte> memory{};
  ExternalAccess access = ExternalAccess::immutable;
  ReleaseFunction release = nullptr;  ///< called exactly once; null for static memory
  void* context = nullptr;
  AllocationProperty property = AllocationProperty::native;

  /// Memory that is never written through assay.
  [[nodiscard]] static ExternalMemory constant(std::span<const std::byte> memory,
                                               ReleaseFunction release = nullptr,
                                               void* context = nullptr) noexcept {
    // The access keeps the promise that const made.
    auto* const data = const_cast<std::byte*>(memory.data());
    return {{data, memory.size()}, ExternalAccess::immutable, release, context};
  }
};

/// Alignment that a foreign address happens to have, at most a page.
[[nodiscard]] std::size_t external_alignment(const void* address) noexcept;

/// The Source of one ExternalMemory. **Invariants** its memory goes to the release function when
/// the block is released, exactly once. **Threads** as any Source with thread_safe.
class External final : public Source {
 public:
  /// Null if no node can be had; then nothing was taken over.
  [[nodiscard]] static Ref<External> make(const ExternalMemory& external) noexcept;

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return node_pool::allocate(size);
  }
  static void operator delete(void* node) noexcept {
    node_pool::deallocate(node, sizeof(External));
  }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(External));
  }

 private:
  explicit External(const ExternalMemory& external) noexcept;
  Freed do_deallocate(Block block, const Release& release) noexcept override;

  ExternalMemory::ReleaseFunction release_;
  void* context_;
};

/// The Source of one adopted vector: the vector itself is kept, so that it can come back out.
template <class E>
class AdoptedVector final : public Source {
 public:
  /// Tells AdoptedVector<E> from every other source by its address, without run-time types.
  static constexpr char id[] = "vector";

  /// Null if no node can be had; then `elements` is untouched.
  [[nodiscard]] static Ref<AdoptedVector> make(std::vector<E>&& elements) noexcept {
    return Ref<AdoptedVector>::adopt(new (std::nothrow) AdoptedVector(std::move(elements)));
  }
  [[nodiscard]] std::vector<E>& elements() noexcept { return elements_; }
  [[nodiscard]] static bool is(const Source& source) noexcept { return source.info().id == id; }

  static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    static_assert(sizeof(AdoptedVector) <= node_pool::large_node);
    return node_pool::allocate(size);
  }
  static void operator delete(void* node) noexcept {
    node_pool::deallocate(node, sizeof(AdoptedVector));
  }
  static void operator delete(void* node, const std::nothrow_t&) noexcept {
    node_pool::deallocate(node, sizeof(AdoptedVector));
  }

 private:
  explicit AdoptedVector(std::vector<E>&& elements) noexcept
      : Source({.id = id,
                .capabilities = Capabilities::host_access | Capabilities::thread_safe,
                .granularity = 1,
                .natural_alignment = alignof(E)}),
        elements_(std::move(elements)) {}
  Freed do_deallocate(Block, const Release&) noexcept override {
    std::vector<E>().swap(elements_);
    return Freed::now;
  }

  std::vector<E> elements_;
};

}  // namespace assay
