// The operations table through which the executor drives an allocator: C, versioned, and free of
// the C++ runtime, so that a preloaded malloc sees no other allocation than the commands'.
#pragma once

#include <cstdint>

extern "C" {

/// What is asked of the allocator. `init`: 0 undefined, 1 zero.
struct assay_request {
  std::uint64_t size;
  std::uint64_t reserve;
  std::uint64_t alignment;
  std::uint32_t init;
  std::uint32_t padding;
};

struct assay_block {
  std::uint64_t address;
  std::uint64_t capacity;
};

/// What the allocator itself says it holds.
struct assay_usage {
  std::uint64_t live_blocks;
  std::uint64_t live_bytes;
  std::uint64_t reserved_bytes;
};

/// One allocator. Every function but allocate and deallocate may be null: the operation is then
/// answered with not_supported, or left out. A status is 0 for success, else an ErrorCode.
struct assay_ops {
  std::uint32_t abi;   ///< assay_ops_abi of the table's author
  std::uint32_t size;  ///< sizeof(assay_ops) of the table's author: later fields are absent
  void* self;          ///< first argument of every function
  std::uint32_t (*allocate)(void* self, const assay_request* request, assay_block* block);
  std::uint32_t (*deallocate)(void* self, const assay_block* block, const assay_request* request);
  /// Frees with the size and alignment of the allocation; null if the allocator cannot use them.
  std::uint32_t (*deallocate_sized)(void* self, const assay_block* block,
                                    const assay_request* request);
  std::uint32_t (*resize)(void* self, const assay_block* block, const assay_request* from,
                          const assay_request* to, std::uint32_t may_move, assay_block* resized);
  void (*usage)(void* self, assay_usage* usage);
  /// Ends the allocator; every block has gone back before.
  void (*destroy)(void* self);
  /// Copies bytes of a block out and in, from `offset` on. Given by an allocator whose memory the
  /// host cannot touch; null: blocks are reached through their addresses.
  std::uint32_t (*read)(void* self, const assay_block* block, std::uint64_t offset, void* to,
                        std::uint64_t size);
  std::uint32_t (*write)(void* self, const assay_block* block, std::uint64_t offset,
                         const void* from, std::uint64_t size);
};

}  // extern "C"

namespace assay::harness {
inline constexpr std::uint32_t assay_ops_abi = 1;
}  // namespace assay::harness
