#include "assay/buffer/allocation_controller.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "assay/buffer/bytes.hpp"
#include "assay/buffer/unified_buffer.hpp"
#include "checking_backing.hpp"

namespace assay {
namespace {

using test::CheckingBacking;
using test::counting;

/// A backing whose blocks can be watched, and a home on it that wipes.
struct Watched {
  Ref<CheckingBacking> backing = CheckingBacking::make({.fresh_fill = std::byte{0}});
  Ref<Home> home = Home::make(backing, {.wipe = Wipe::on_release}).value();

  Bytes made(std::size_t size) const { return Bytes::from_span(counting(size), *home).value(); }
  /// Every block is back, and each was all zero as it went.
  void expect_wiped(std::size_t blocks) const {
    EXPECT_EQ(backing->usage().live_blocks, 0u);
    ASSERT_EQ(backing->freed.size(), blocks);
    for (const auto& block : backing->freed) EXPECT_TRUE(block.all_zero());
    EXPECT_TRUE(backing->faults.empty());
  }
};

TEST(Controller, IsOneNode) {
  EXPECT_EQ(sizeof(AllocationController), 64u);
}

// fault:B-17, fault:B-18: each way out of a wiped block, by name.
TEST(Controller, WipesOnEveryWayOut) {
  struct Way {
    const char* name;
    std::size_t blocks;
    std::function<void(const Watched&)> go;
  };
  const Way ways[] = {
      {"drop", 1, [](const Watched& w) { w.made(64); }},
      {"growth that moves", 2,
       [](const Watched& w) {
         Bytes bytes = w.made(64);
         ASSERT_TRUE(bytes.extend(counting(64)).has_value());
       }},
      {"a fork, and the original it leaves", 2,
       [](const Watched& w) {
         Bytes a = w.made(64);
         ASSERT_TRUE(a.shared().has_value());
         Bytes b = a.clone().value();
         a.write().value()[0] = std::byte{9};
       }},
      {"a deep clone", 2, [](const Watched& w) { (void)w.made(64).clone().value(); }},
      {"halves", 1,
       [](const Watched& w) {
         Bytes left = w.made(64);
         Bytes right = left.split(32, SplitPolicy::owned).value();
         left = Bytes();
         right.write().value()[31] = std::byte{9};
       }},
      {"a half that becomes shared", 1,
       [](const Watched& w) {
         Bytes left = w.made(64);
         Bytes right = left.split(32).value();
         ASSERT_TRUE(right.shared().has_value());
         const Bytes view = right.view(5, 6).value();
         right = Bytes();
         left = Bytes();
       }},
      {"truncated bytes", 1,
       [](const Watched& w) {
         Bytes bytes = w.made(64);
         bytes.truncate(1);
       }},
      {"an owned array", 1,
       [](const Watched& w) {
         Bytes bytes = w.made(64);
         auto array = bytes.try_into_owned<std::uint64_t>().value();
         array[7] = 7;
       }},
      {"frozen, written and detached", 1,
       [](const Watched& w) {
         Bytes bytes = w.made(64);
         auto buffer = UnifiedBuffer::detach(bytes).value();
         buffer.as_mutable_span().value()[63] = std::byte{9};
         (void)buffer.freeze().value();
       }},
      {"a copy for alignment", 2,
       [](const Watched& w) {
         Bytes bytes = w.made(64);
         (void)bytes.split(8, SplitPolicy::owned, 16).value();
       }},
      {"compacted", 2,
       [](const Watched& w) {
         Bytes bytes = w.made(256);
         bytes.truncate(8);
         ASSERT_TRUE(bytes.compact().has_value());
       }},
      {"an exception that passes by", 1,
       [](const Watched& w) {
         try {
           const Bytes bytes = w.made(64);
           throw 1;
         } catch (int) {
         }
       }},
      {"moved to another thread", 1,
       [](const Watched& w) { std::thread([taken = w.made(64)] {}).join(); }},
  };
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    const Watched watched;
    way.go(watched);
    watched.expect_wiped(way.blocks);
  }
}

TEST(Controller, WipesUpToTheMarkAndNoFurther) {
  const Watched watched;
  {
    Bytes bytes = Bytes::with_capacity(1 << 16, *watched.home).value();
    ASSERT_TRUE(bytes.extend(counting(100)).has_value());
    bytes.truncate(10);
  }
  EXPECT_EQ(watched.backing->filled_bytes, 100u);
  watched.expect_wiped(1);
}

TEST(Controller, DoesNotWipeUnlessAsked) {
  const auto backing = CheckingBacking::make();
  const auto home = Home::make(backing).value();
  {
    const Bytes bytes = Bytes::from_span(counting(64), *home).value();
  }
  EXPECT_EQ(backing->filled_bytes, 0u);
  EXPECT_FALSE(backing->freed.at(0).all_zero());
}

TEST(Controller, SaysThatABlockIsZeroOnlyIfItIs) {
  const Watched watched;
  {
    const Bytes bytes = Bytes::zeroed(64, *watched.home).value();
  }
  EXPECT_TRUE(watched.backing->freed.at(0).known_zero);
  {
    const Bytes slack = Bytes::zeroed(60, *watched.home).value();
  }
  EXPECT_FALSE(watched.backing->freed.at(1).known_zero) << "the slack was never promised";
  {
    const Bytes undefined = watched.made(64);
  }
  EXPECT_FALSE(watched.backing->freed.at(2).known_zero);
  EXPECT_TRUE(watched.backing->faults.empty());
}

TEST(Controller, FailingWipesAndFreesAreCounted) {
  /// A backing that keeps every block and refuses to clean it.
  class Stubborn final : public Adaptor {
   public:
    explicit Stubborn(const Ref<Backing>& upstream)
        : Adaptor(renamed("stubborn", *upstream), upstream) {}

   private:
    Freed do_deallocate(Block block, const Release& release) noexcept override {
      deallocate_to(upstream(), block, release);
      return Freed::failed;
    }
    Result<void> do_fill(Block, std::size_t, std::size_t size, std::byte) noexcept override {
      return Error::make(ErrorCode::not_supported, "fill", "stubborn", size);
    }
  };
  const auto backing = Ref<Backing>(Ref<Stubborn>::adopt(new Stubborn(CheckingBacking::make())));
  const ReleaseIncidents before = release_incidents();
  {
    const auto home = Home::make(backing, {.wipe = Wipe::on_release}).value();
    const Bytes bytes = Bytes::from_span(counting(64), *home).value();
  }
  EXPECT_EQ(release_incidents().failed_wipes, before.failed_wipes + 1);
  EXPECT_EQ(release_incidents().failed_frees, before.failed_frees + 1);
}

// The k-th node and the k-th block fail, for every k: no leak, and what was there stays.
TEST(Controller, EveryFailureOfAScenarioIsClean) {
  const auto nodes = node_pool::balance_of_thread();
  const auto backing = CheckingBacking::make();
  const auto scenario = [&]() -> Result<void> {
    ASSAY_TRY(const Ref<Home> home, Home::make(backing, {.wipe = Wipe::on_release}));
    ASSAY_TRY(Bytes a, Bytes::from_span(counting(64), *home));
    ASSAY_TRY(Bytes b, a.split(32));
    ASSAY_TRY_VOID(b.shared());
    ASSAY_TRY(Bytes c, b.clone());
    const auto written = c.write();
    EXPECT_TRUE(written || c == b);
    if (!written) return written.error();
    ASSAY_TRY_VOID(c.extend(counting(100)));
    ASSAY_TRY(const Bytes d, a.clone());
    ASSAY_TRY(auto buffer, UnifiedBuffer::create(100, {.backing = backing}));
    ASSAY_TRY_VOID(buffer.resize(1000));
    EXPECT_TRUE(std::equal(d.begin(), d.end(), counting(32).begin()));
    return {};
  };
  for (const bool of_nodes : {true, false}) {
    std::uint64_t failures = 0;
    for (std::uint64_t nth = 1;; ++nth) {
      of_nodes ? node_pool::fail_nth(nth) : backing->fail_nth(nth);
      const auto result = scenario();
      const bool pending = of_nodes ? node_pool::failure_pending() : backing->failure_pending();
      node_pool::fail_nth(0);
      backing->fail_nth(0);
      EXPECT_EQ(backing->usage().live_blocks, 0u) << nth;
      EXPECT_EQ(node_pool::balance_of_thread(), nodes) << nth;
      if (pending) {
        EXPECT_TRUE(result.has_value());
        break;
      }
      if (!result) {
        ++failures;
        EXPECT_EQ(result.error().code, ErrorCode::out_of_memory);
      }
    }
    EXPECT_GE(failures, of_nodes ? 8u : 5u);
  }
  EXPECT_TRUE(backing->faults.empty());
}

TEST(Home, RefusesWhatItCannotKeep) {
  EXPECT_EQ(Home::make({}).error().code, ErrorCode::invalid_argument);
  const auto backing = CheckingBacking::make();
  const auto refused = Home::make(backing, {.alignment = 24});
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_alignment);
  EXPECT_EQ(refused.error().requested, 24u);
}

TEST(ControllerDeathTest, DissolvingARootStopsTheProgram) {
  Error error;
  auto* const root = AllocationController::allocate(Home::host(), {.size = 8}, error);
  ASSERT_NE(root, nullptr);
  EXPECT_DEATH(root->dissolve(), "only the last owner of a child dissolves it");
  root->release();
}

}  // namespace
}  // namespace assay
