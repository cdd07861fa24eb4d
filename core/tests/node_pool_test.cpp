#include "assay/base/node_pool.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace assay {
namespace {

TEST(NodePool, NodesAreDistinctAlignedAndAllWritable) {
  for (const std::size_t size : {std::size_t{1}, node_pool::small_node, node_pool::large_node}) {
    std::vector<void*> nodes;
    const auto before = node_pool::balance_of_thread();
    for (int i = 0; i < 200; ++i) {
      void* const node = node_pool::allocate(size);
      ASSERT_NE(node, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(node) % 64, 0u);
      std::memset(node, i, size);
      nodes.push_back(node);
    }
    EXPECT_EQ(node_pool::balance_of_thread(), before + 200);
    for (int i = 0; i < 200; ++i) {
      const auto* const bytes = static_cast<unsigned char*>(nodes[static_cast<std::size_t>(i)]);
      EXPECT_EQ(bytes[0], static_cast<unsigned char>(i));
      EXPECT_EQ(bytes[size - 1], static_cast<unsigned char>(i));
      node_pool::deallocate(nodes[static_cast<std::size_t>(i)], size);
    }
    EXPECT_EQ(node_pool::balance_of_thread(), before);
  }
}

TEST(NodePool, AThreadKeepsABoundedNumberOfNodes) {
  std::vector<void*> nodes;
  for (int i = 0; i < 1000; ++i) nodes.push_back(node_pool::allocate(64));
  for (void* const node : nodes) node_pool::deallocate(node, 64);
  EXPECT_LE(node_pool::cached_in_thread(), 128u);
}

TEST(NodePool, FailsExactlyTheNthAllocationOnce) {
  node_pool::fail_nth(3);
  void* const first = node_pool::allocate(64);
  void* const second = node_pool::allocate(128);
  EXPECT_TRUE(node_pool::failure_pending());
  EXPECT_EQ(node_pool::allocate(64), nullptr);
  EXPECT_FALSE(node_pool::failure_pending());
  void* const fourth = node_pool::allocate(64);
  EXPECT_NE(fourth, nullptr);
  node_pool::deallocate(first, 64);
  node_pool::deallocate(second, 128);
  node_pool::deallocate(fourth, 64);
  node_pool::deallocate(nullptr, 64);
}

TEST(NodePool, NodesMayBeGivenBackByAnotherThread) {
  std::vector<void*> nodes;
  for (int i = 0; i < 300; ++i) nodes.push_back(node_pool::allocate(64));
  std::thread([&] {
    for (void* const node : nodes) node_pool::deallocate(node, 64);
    nodes.clear();
    for (int i = 0; i < 10; ++i) nodes.push_back(node_pool::allocate(64));
  }).join();  // the thread's list is emptied as it ends
  for (void* const node : nodes) node_pool::deallocate(node, 64);
}

}  // namespace
}  // namespace assay
