#include "assay/backing/heap.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace assay {
namespace {

constexpr std::size_t natural = 16;              // malloc's own alignment on 64-bit systems
constexpr std::size_t calloc_from = 128 * 1024;  // fresh mappings are zero: calloc skips the pass

constexpr SourceInfo heap_info{
    .id = "heap",
    .capabilities = Capabilities::host_access | Capabilities::thread_safe |
                    Capabilities::resize_in_place | Capabilities::resize_moves,
    .granularity = natural,
    .natural_alignment = natural,
};

std::size_t granted_size(const Request& request) noexcept {
  const std::size_t wanted = request.size > request.reserve ? request.size : request.reserve;
  return align_up(wanted, natural);
}

void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

/// malloc, or calloc where `zero` and that is cheaper. Sets `zeroed` if the bytes read zero.
void* host_allocate(std::size_t size, bool zero, bool& zeroed) noexcept {
  zeroed = zero && size >= calloc_from;
  return zeroed ? std::calloc(1, size) : std::malloc(size);
}

/// The base pointer that an over-aligned payload keeps just below itself.
void*& base_below(void* payload) noexcept {
  return static_cast<void**>(payload)[-1];
}

}  // namespace

Ref<Heap> Heap::make() {
  return Ref<Heap>::adopt(new Heap);
}

Heap::Heap() noexcept : Backing(heap_info) {}

Heap::~Heap() {
  ASSAY_CONTRACT(live_.total().blocks == 0, "heap destroyed with live blocks");
}

Block Heap::do_allocate(const Request& request, Error& error) noexcept {
  const std::size_t capacity = granted_size(request);
  const bool zero = request.init == Init::zero;
  const bool over_aligned = request.alignment > natural;
  bool zeroed = false;
  void* const base =
      host_allocate(over_aligned ? capacity + request.alignment : capacity, zero, zeroed);
  if (base == nullptr) {
    error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
    error.native = ENOMEM;
    error.in_use = live_.total().bytes;
    return {};
  }
  void* payload = base;
  if (over_aligned) {
    // malloc aligns to 16, so at least 16 bytes lie below the next multiple: room for the base.
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    payload = reinterpret_cast<void*>(align_up(address + 1, request.alignment));
    base_below(payload) = base;
  }
  if (zero && !zeroed) std::memset(payload, 0, capacity);
  live_.add(capacity);
  return {reinterpret_cast<std::uintptr_t>(payload), capacity};
}

Freed Heap::do_deallocate(Block block, const Release& release) noexcept {
  void* const payload = pointer_to(block.address);
  live_.remove(block.capacity);
  std::free(release.request.alignment > natural ? base_below(payload) : payload);
  return Freed::now;
}

std::size_t Heap::do_footprint(const Request& request) const noexcept {
  return granted_size(request);
}

Usage Heap::do_usage() const noexcept {
  const auto total = live_.total();
  return {total.blocks, total.bytes, total.bytes};
}

Block Heap::do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                      Error& error) noexcept {
  Block result = block;
  if (to.size > block.capacity) {
    if (may_move == MayMove::no) {
      error = Error::make(ErrorCode::not_supported, "resize in place", info().id, to.size);
      error.limit = block.capacity;
      return {};
    }
    Request larger = to;
    larger.init = Init::undefined;
    result = do_allocate(larger, error);
    if (!result) return {};
    std::memcpy(pointer_to(result.address), pointer_to(block.address), from.size);
    do_deallocate(block, Release{from, false});
  }
  if (to.init == Init::zero && to.size > from.size) {
    std::memset(static_cast<std::byte*>(pointer_to(result.address)) + from.size, 0,
                to.size - from.size);
  }
  return result;
}

}  // namespace assay
