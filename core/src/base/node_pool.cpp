#include "assay/base/node_pool.hpp"

#include <pthread.h>

#include <array>
#include <new>

#include "assay/base/contract.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ASSAY_NODE_POOL_BYPASSED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ASSAY_NODE_POOL_BYPASSED 1
#endif
#endif
#ifndef ASSAY_NODE_POOL_BYPASSED
#define ASSAY_NODE_POOL_BYPASSED 0
#endif

namespace assay::node_pool {
namespace {

constexpr bool bypassed = ASSAY_NODE_POOL_BYPASSED != 0;
constexpr std::size_t cached_nodes_max = 64;  // per thread and size: at most 4 and 8 KiB
constexpr std::align_val_t node_alignment{64};

struct FreeNode {
  FreeNode* next;
};

struct FreeList {
  FreeNode* head;
  std::size_t count;
};

// Trivially destructible and constant-initialised: usable from any destructor of any thread, at
// any time. A pthread key empties it when the thread ends.
struct ThreadState {
  std::array<FreeList, 2> lists;
  std::int64_t balance;
  std::uint64_t fail_in;  // 1: the next allocation fails; 0: none does
  enum class Cache : std::uint8_t { untried, open, closed } cache;
};
constinit thread_local ThreadState state{};

constexpr std::size_t class_of(std::size_t size) noexcept {
  return size <= small_node ? 0 : 1;
}
constexpr std::size_t bytes_of(std::size_t index) noexcept {
  return index == 0 ? small_node : large_node;
}

void empty_lists(void* ended) noexcept {
  auto& mine = *static_cast<ThreadState*>(ended);
  mine.cache = ThreadState::Cache::closed;
  for (FreeList& list : mine.lists) {
    while (list.head != nullptr) {
      FreeNode* const node = list.head;
      list.head = node->next;
      ::operator delete(node, node_alignment);
    }
    list.count = 0;
  }
}

struct ExitKey {
  ExitKey() noexcept { made = pthread_key_create(&key, empty_lists) == 0; }
  pthread_key_t key{};
  bool made = false;
};

/// Registers the thread's clean-up once; without it nothing is cached, so nothing can leak.
bool open_cache() noexcept {
  static const ExitKey exit_key;
  const bool registered = exit_key.made && pthread_setspecific(exit_key.key, &state) == 0;
  state.cache = registered ? ThreadState::Cache::open : ThreadState::Cache::closed;
  return registered;
}

bool may_cache() noexcept {
  if constexpr (bypassed) return false;
  if (state.cache == ThreadState::Cache::open) [[likely]]
    return true;
  return state.cache == ThreadState::Cache::untried && open_cache();
}

}  // namespace

void* allocate(std::size_t size) noexcept {
  ASSAY_CONTRACT(size != 0 && size <= large_node, "no node has this size");
  if (state.fail_in != 0) [[unlikely]] {
    if (--state.fail_in == 0) return nullptr;
  }
  const std::size_t index = class_of(size);
  FreeList& list = state.lists[index];
  void* node = list.head;
  if (node != nullptr) [[likely]] {
    list.head = list.head->next;
    --list.count;
  } else {
    node = ::operator new(bytes_of(index), node_alignment, std::nothrow);
    if (node == nullptr) return nullptr;
  }
  ++state.balance;
  return node;
}

void deallocate(void* node, std::size_t size) noexcept {
  if (node == nullptr) return;
  --state.balance;
  FreeList& list = state.lists[class_of(size)];
  if (list.count < cached_nodes_max && may_cache()) [[likely]] {
    list.head = new (node) FreeNode{list.head};
    ++list.count;
    return;
  }
  ::operator delete(node, node_alignment);
}

std::int64_t balance_of_thread() noexcept {
  return state.balance;
}

std::size_t cached_in_thread() noexcept {
  return state.lists[0].count + state.lists[1].count;
}

void fail_nth(std::uint64_t nth) noexcept {
  state.fail_in = nth;
}

bool failure_pending() noexcept {
  return state.fail_in != 0;
}

}  // namespace assay::node_pool
