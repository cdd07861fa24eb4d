// The process subject: whatever malloc this program runs with, the C library's or a preloaded one.
//
// Linked without the C++ library, compiled with -fno-builtin, all state static: no allocation but
// the commands' ever reaches the allocator under test, and the compiler pairs none of them away.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "executor.hpp"

namespace assay::harness {
namespace {

/// Bits of Capabilities by name, without the C++ library that its header needs.
enum CapabilityIndex : std::uint32_t {
#define ASSAY_CAPABILITY(name, meaning) name##_index,
#include "assay/backing/capabilities.def"
#undef ASSAY_CAPABILITY
};
constexpr std::uint64_t natural_alignment = 16;
constexpr std::uint64_t size_max = ~std::uint64_t{0} >> 1;  // PTRDIFF_MAX

using Sdallocx = void (*)(void* memory, size_t size, int flags);
using MiFreeSizeAligned = void (*)(void* memory, size_t size, size_t alignment);

struct Library {
  const char* wanted;  // name of the preload, or null for the C library's own malloc
  const char* path;    // of the library that serves malloc
  Sdallocx sdallocx;
  MiFreeSizeAligned mi_free_size_aligned;
};
Library library;

void* pointer_of(const assay_block* block) noexcept {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(block->address));
}

/// malloc aligns to 16 only what is 16 bytes or more: jemalloc, mimalloc and tcmalloc place
/// smaller blocks at multiples of 8, which C allows for objects of that size.
bool needs_aligned_alloc(const assay_request* request) noexcept {
  return request->alignment > natural_alignment || request->alignment > request->size;
}

/// The size that aligned_alloc is called with: Scudo insists on a multiple of the alignment.
std::uint64_t padded_size(const assay_request* request) noexcept {
  return (request->size + request->alignment - 1) & ~(request->alignment - 1);
}

std::uint32_t allocate(void*, const assay_request* request, assay_block* block) noexcept {
  void* memory = nullptr;
  if (needs_aligned_alloc(request)) {
    // Padding a size near the top of the address space would wrap to a small one.
    if (request->size > size_max - request->alignment) return child_error_too_large;
    memory = ::aligned_alloc(request->alignment, padded_size(request));
    if (memory != nullptr && request->init != 0) ::memset(memory, 0, request->size);
  } else {
    memory = request->init != 0 ? ::calloc(1, request->size) : ::malloc(request->size);
  }
  if (memory == nullptr) return child_error_out_of_memory;
  *block = {reinterpret_cast<std::uintptr_t>(memory), request->size};
  return 0;
}

std::uint32_t deallocate(void*, const assay_block* block, const assay_request*) noexcept {
  ::free(pointer_of(block));
  return 0;
}

std::uint32_t deallocate_sized(void*, const assay_block* block,
                               const assay_request* request) noexcept {
  const bool aligned = needs_aligned_alloc(request);
  const std::uint64_t size = aligned ? padded_size(request) : request->size;
  if (library.sdallocx != nullptr) {
    const int flags = aligned ? __builtin_ctzll(request->alignment) : 0;  // MALLOCX_LG_ALIGN
    library.sdallocx(pointer_of(block), size, flags);
  } else {
    library.mi_free_size_aligned(pointer_of(block), size, aligned ? request->alignment : 1);
  }
  return 0;
}

std::uint32_t resize(void*, const assay_block* block, const assay_request* from,
                     const assay_request* to, std::uint32_t may_move,
                     assay_block* resized) noexcept {
  // realloc promises no more than malloc does, and may always move.
  if (may_move == 0 || needs_aligned_alloc(to)) return child_error_not_supported;
  void* const memory = ::realloc(pointer_of(block), to->size);
  if (memory == nullptr) return child_error_out_of_memory;
  if (to->init != 0 && to->size > from->size) {
    ::memset(static_cast<char*>(memory) + from->size, 0, to->size - from->size);
  }
  *resized = {reinterpret_cast<std::uintptr_t>(memory), to->size};
  return 0;
}

const char* file_of(void* address) noexcept {
  Dl_info info;
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

const char* name_in(const char* path) noexcept {
  const char* const slash = ::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

/// A function of that name in the library that serves malloc, or null: another library's would
/// free what is not its own.
void* same_library(const char* function) noexcept {
  void* const address = ::dlsym(RTLD_DEFAULT, function);
  return address != nullptr && ::strcmp(file_of(address), library.path) == 0 ? address : nullptr;
}

void describe(void*, SharedCase& shared) noexcept {
  ChildFacts& facts = shared.facts;
  facts.capabilities = 1u << host_access_index | 1u << thread_safe_index | 1u << resize_moves_index;
  // The address of malloc as this program calls it, not dlsym's: TBB's dlsym yields glibc's.
  library.path = file_of(reinterpret_cast<void*>(&::malloc));
  ::strncpy(facts.provider, library.path, sizeof facts.provider - 1);
  const char* const wanted = library.wanted;
  if (wanted == nullptr) {
    facts.proven = 1;
  } else {
    const char* const suffix = ::strstr(wanted, ".so");
    const size_t stem = suffix == nullptr ? ::strlen(wanted) : static_cast<size_t>(suffix - wanted);
    facts.proven = ::strncmp(name_in(library.path), wanted, stem) == 0 ? 1 : 0;
  }
  library.sdallocx = reinterpret_cast<Sdallocx>(same_library("sdallocx"));
  library.mi_free_size_aligned =
      reinterpret_cast<MiFreeSizeAligned>(same_library("mi_free_size_aligned"));
  const char* sized_by = "the library exports neither sdallocx nor mi_free_size_aligned";
  if (library.sdallocx != nullptr) sized_by = "sdallocx";
  if (library.mi_free_size_aligned != nullptr) sized_by = "mi_free_size_aligned";
  facts.sized_free = library.sdallocx != nullptr || library.mi_free_size_aligned != nullptr;
  ::strncpy(facts.sized_by, sized_by, sizeof facts.sized_by - 1);
  // The first blocks set the allocator up before any case is forked.
  for (const size_t size : {size_t{64}, size_t{40} << 10}) {
    void* const memory = ::malloc(size);
    ::free(memory);
  }
}

std::uint32_t open(void*, SharedCase&, assay_ops& ops) noexcept {
  ops.allocate = allocate;
  ops.deallocate = deallocate;
  if (library.sdallocx != nullptr || library.mi_free_size_aligned != nullptr) {
    ops.deallocate_sized = deallocate_sized;
  }
  ops.resize = resize;
  return 0;
}

}  // namespace
}  // namespace assay::harness

/// assay-preload-child SHARED_FD CONTROL_FD [LIBRARY]
extern "C" int main(int argument_count, char** arguments) {
  using namespace assay::harness;
  if (argument_count < 3) return 2;
  library.wanted = argument_count > 3 ? arguments[3] : nullptr;
  const Provider provider{nullptr, describe, open, nullptr};
  return serve_cases(provider, ::atoi(arguments[1]), ::atoi(arguments[2]));
}
