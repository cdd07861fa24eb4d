// Primary contexts on the model: current for a scope on any thread, noticed when lost or reborn,
// and dropped without a sound when the driver is gone.
#include <functional>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assay/cuda/stream.hpp"
#include "cuda_model.hpp"

namespace assay::cuda {
namespace {

using abi::Status;

class CudaContext : public CudaModelTest {};

TEST_F(CudaContext, RetainingMakesNothingCurrent) {
  const Ref<PrimaryContext> context = retained();
  EXPECT_EQ(current(), nullptr);
  EXPECT_TRUE(active());
  EXPECT_EQ(context->facts().name, "MODEL (no GPU)");
  {
    const auto outer = Current::of(*context);
    ASSERT_TRUE(outer) << describe(outer.error());
    EXPECT_EQ(current(), context->handle());
    {
      const auto inner = Current::of(*context);
      ASSERT_TRUE(inner);
    }
    EXPECT_EQ(current(), context->handle());
  }
  EXPECT_EQ(current(), nullptr);
}

TEST_F(CudaContext, AScopeOnAnotherThreadIsItsOwn) {
  const Ref<PrimaryContext> context = retained();
  const auto here = Current::of(*context);
  ASSERT_TRUE(here);
  std::thread([&] {
    EXPECT_EQ(current(), nullptr);
    const auto there = Current::of(*context);
    EXPECT_TRUE(there);
    EXPECT_EQ(current(), context->handle());
  }).join();
  EXPECT_EQ(current(), context->handle());
}

TEST_F(CudaContext, AMovedScopePopsOnce) {
  const Ref<PrimaryContext> context = retained();
  const auto outer = Current::of(*context);
  ASSERT_TRUE(outer);
  {
    Current first = Current::of(*context).value();
    const Current second = std::move(first);
  }
  EXPECT_EQ(current(), context->handle()) << "the outer one is still current";
}

TEST_F(CudaContext, EachObjectHoldsOneRetainReleasedOnAnyThread) {
  Ref<PrimaryContext> first = retained();
  Ref<PrimaryContext> second = retained();
  EXPECT_EQ(first->handle(), second->handle());
  first = {};
  EXPECT_TRUE(active());
  std::thread([&] { second = {}; }).join();
  EXPECT_FALSE(active());
}

TEST_F(CudaContext, AnOrdinalThatIsNotThereIsRefused) {
  for (const int ordinal : {-1, driver_->device_count()}) {
    const auto context = PrimaryContext::retain(driver_, ordinal);
    ASSERT_FALSE(context);
    EXPECT_EQ(context.error().code, ErrorCode::invalid_argument);
  }
}

TEST_F(CudaContext, AResetContextIsLost) {
  Ref<PrimaryContext> context = retained();
  EXPECT_FALSE(context->lost());
  ASSERT_EQ(table().cuDevicePrimaryCtxReset_v2(0), Status::success);
  const auto refused = Current::of(*context);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_lost);
  EXPECT_TRUE(context->lost());
  EXPECT_EQ(current(), nullptr);
}

TEST_F(CudaContext, AContextRebornUnderTheSameHandleIsNoticed) {
  Ref<PrimaryContext> old = retained();
  ASSERT_EQ(table().cuDevicePrimaryCtxReset_v2(0), Status::success);
  Ref<PrimaryContext> reborn = retained();
  ASSERT_EQ(old->handle(), reborn->handle()) << "the model gives the handle's value again";
  const auto refused = Current::of(*old);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_lost);
  EXPECT_EQ(refused.error().native, 709);
  EXPECT_EQ(old->lost_by(), Status::context_is_destroyed);
  EXPECT_TRUE(Current::of(*reborn));
  old = {};
  EXPECT_TRUE(active());
  EXPECT_TRUE(Current::of(*reborn)) << "the old object gives back its own count only";
  EXPECT_FALSE(reborn->lost());
  reborn = {};
  EXPECT_FALSE(active()) << "a reset releases nothing: both counts are given back";
}

TEST_F(CudaContext, AStickyErrorIsRememberedWithTheDriversWords) {
  Ref<PrimaryContext> context = retained();
  const auto first = context->check(Status::illegal_address, "cuMemcpy", "device");
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::context_lost);
  EXPECT_STREQ(first.error().native_name, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_STRNE(first.error().native_text, "");
  EXPECT_STREQ(first.error().backing, "device");
  EXPECT_FALSE(context->check(Status::launch_failed, "cuMemcpy"));
  EXPECT_EQ(context->lost_by(), Status::illegal_address) << "the first reason is kept";
  const auto refused = Current::of(*context);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().native, 700);
  model().set_faults(nullptr);
  context = {};
  EXPECT_EQ(model().calls("*"), 0U) << "a lost context is dropped without a call";
  // What the object could not give back is given back for the other tests.
  EXPECT_EQ(table().cuDevicePrimaryCtxRelease_v2(0), Status::success);
}

TEST_F(CudaContext, ADeadHandleIsNoLostContext) {
  const Ref<PrimaryContext> context = retained();
  for (const Status status : {Status::context_is_destroyed, Status::invalid_context}) {
    const auto failed = context->check(status, "cuMemPrefetchAsync");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, ErrorCode::driver_error);
    EXPECT_FALSE(context->lost());
  }
}

TEST_F(CudaContext, OrdinaryFailuresLeaveItAlive) {
  const Ref<PrimaryContext> context = retained();
  for (const int status : {1, 2, 400, 500, 600, 800, 801, 999}) {
    EXPECT_FALSE(context->check(static_cast<Status>(status), "call"));
    EXPECT_FALSE(context->lost()) << status;
  }
}

// Every call of a whole life may fail: nothing is left over, and no handle is given back twice.
TEST_F(CudaContext, EveryCallOfALifeMayFail) {
  const auto life = [&]() -> Result<void> {
    ASSAY_TRY(const Ref<PrimaryContext> context, PrimaryContext::retain(driver_, 0));
    ASSAY_TRY(const Ref<Stream> stream, Stream::make(context));
    ASSAY_TRY(const Ref<Event> event, Event::make(context));
    ASSAY_TRY_VOID(event->record(*stream));
    ASSAY_TRY_VOID(stream->wait(*event));
    ASSAY_TRY_VOID(event->synchronize());
    return stream->synchronize();
  };
  ASSERT_TRUE(life());
  model().set_faults(nullptr);
  ASSERT_TRUE(life());
  const std::uint64_t calls = model().calls("*");
  ASSERT_GT(calls, 20U);
  for (const int code : {1, 2, 999}) {
    for (std::uint64_t nth = 1; nth <= calls; ++nth) {
      ASSERT_EQ(model().set_faults(fmt::format("*:{}:{}", nth, code).c_str()), 0);
      static_cast<void>(life());
      ASSERT_EQ(model().faults_injected(), 1U) << nth;
      model().set_faults(nullptr);
      ASSERT_EQ(live(assay_model_stream), 0U) << "call " << nth << " fails with " << code;
      ASSERT_EQ(live(assay_model_event), 0U) << "call " << nth << " fails with " << code;
      ASSERT_FALSE(active()) << "call " << nth << " fails with " << code;
      ASSERT_EQ(current(), nullptr) << "call " << nth << " fails with " << code;
    }
  }
}

// What must happen in a process of its own runs there, and ends it with 0 if all was well.
using CudaProcess = CudaContext;

#define ASSAY_STEP(number, condition) \
  if (!(condition)) std::_Exit(number)

TEST_F(CudaProcess, AForkedChildIsToldAndMakesNoCall) {
  EXPECT_EXIT(
      {
        Ref<PrimaryContext> context = retained();
        Ref<Stream> stream = Stream::make(context).value();
        const pid_t child = ::fork();
        if (child == 0) {
          model().set_faults(nullptr);
          ASSAY_STEP(2, driver_->forked());
          const auto refused = Current::of(*context);
          ASSAY_STEP(3, !refused && refused.error().code == ErrorCode::context_lost);
          ASSAY_STEP(4, refused.error().native == 3);
          const auto again = Driver::load({ASSAY_MODEL_LIBRARY});
          ASSAY_STEP(5, !again && again.error().native == 3);
          const auto instance = Driver::instance();
          ASSAY_STEP(6, !instance && instance.error().native == 3);
          ASSAY_STEP(7, !PrimaryContext::retain(driver_, 0));
          stream = {};
          context = {};
          ASSAY_STEP(8, model().calls("cuStreamDestroy_v2") == 0);
          ASSAY_STEP(9, model().calls("cuDevicePrimaryCtxRelease_v2") == 0);
          std::_Exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        ASSAY_STEP(20, WIFEXITED(status));
        ASSAY_STEP(WEXITSTATUS(status), WEXITSTATUS(status) == 0);
        ASSAY_STEP(21, !driver_->forked() && stream->synchronize());
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(CudaProcess, APoisonedContextEndsEverythingQuietly) {
  EXPECT_EXIT(
      {
        Ref<PrimaryContext> context = retained();
        Ref<Stream> stream = Stream::make(context).value();
        Ref<Event> event = Event::make(context).value();
        model().poison(700);
        const auto failed = stream->synchronize();
        ASSAY_STEP(2, !failed && failed.error().code == ErrorCode::context_lost);
        ASSAY_STEP(3, failed.error().native == 700 && context->lost());
        ASSAY_STEP(4, !Stream::make(context) && !event->record(*stream));
        model().set_faults(nullptr);
        event = {};
        stream = {};
        context = {};
        ASSAY_STEP(5, model().calls("*") == 0);
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(CudaProcess, TheProcessHasOneDriverAndOneContextADevice) {
  EXPECT_EXIT(
      {
        ::setenv(Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
        std::vector<Ref<PrimaryContext>> contexts(8);
        std::vector<std::thread> threads;
        for (Ref<PrimaryContext>& one : contexts) {
          threads.emplace_back([&one] { one = PrimaryContext::of_device(0).value(); });
        }
        for (std::thread& one : threads) one.join();
        for (const Ref<PrimaryContext>& one : contexts) {
          ASSAY_STEP(2, one.get() == contexts[0].get());
          ASSAY_STEP(3, &one->driver() == Driver::instance().value().get());
        }
        ASSAY_STEP(4, !PrimaryContext::of_device(-1) && !PrimaryContext::of_device(1000));
        const abi::DriverTable& calls = contexts[0]->table();
        ASSAY_STEP(5, calls.cuDevicePrimaryCtxReset_v2(0) == Status::success);
        const Ref<PrimaryContext> anew = PrimaryContext::of_device(0).value();
        ASSAY_STEP(6, anew.get() != contexts[0].get());
        ASSAY_STEP(7, bool(Current::of(*anew)) && !Current::of(*contexts[0]));
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(CudaProcess, TheModelIsAnnouncedOnce) {
  EXPECT_EXIT(
      {
        static_cast<void>(Driver::load({ASSAY_MODEL_LIBRARY}));
        static_cast<void>(Driver::load({ASSAY_MODEL_LIBRARY}));
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0),
      ::testing::Matcher<const std::string&>(::testing::Truly([](const std::string& text) {
        const std::string_view words = "assay: the CUDA driver is a model (";
        const std::size_t first = text.find(words);
        return first != std::string::npos && text.find(words, first + 1) == std::string::npos &&
               text.find("profile h200") != std::string::npos;
      })));
}

TEST(CudaFreshProcess, AForkBeforeTheFirstUseIsFree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv(Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
        for (const int expected : {0, 1}) {  // the second child's parent has initialised it
          const pid_t child = ::fork();
          if (child == 0) std::_Exit(Driver::instance() ? 0 : 1);
          int status = 0;
          ::waitpid(child, &status, 0);
          ASSAY_STEP(2 + expected, WIFEXITED(status) && WEXITSTATUS(status) == expected);
          ASSAY_STEP(4, bool(Driver::instance()));
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

/// Made before the driver is loaded, so it ends after the driver's exit handler has run.
struct MeetsTheEnd {
  Ref<PrimaryContext> context;
  Ref<Stream> stream;
  MeetsTheEnd() = default;
  MeetsTheEnd(const MeetsTheEnd&) = delete;
  MeetsTheEnd& operator=(const MeetsTheEnd&) = delete;
  ~MeetsTheEnd() {
    stream = {};
    const bool told = context->lost_by() == Status::deinitialized;
    context = {};
    std::_Exit(told ? 0 : 3);
  }
};

TEST(CudaFreshProcess, StaticObjectsMeetTheEndWithoutAWord) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static MeetsTheEnd last;
        ::setenv(Driver::path_variable, ASSAY_MODEL_LIBRARY, 1);
        last.context = PrimaryContext::of_device(0).value();
        last.stream = Stream::make(last.context).value();
        std::exit(1);
      },
      ::testing::ExitedWithCode(0), "");
}

// The driver of 11.8 has no ids: that the context is inactive is all that can be seen.
TEST(CudaOldDriver, AResetContextIsLostWithoutIdsToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        ::setenv(abi::model_profile_variable, "driver_11_8", 1);
        const auto driver = Driver::load({ASSAY_MODEL_LIBRARY});
        ASSAY_STEP(2, bool(driver));
        ASSAY_STEP(3, !driver.value()->has(Feature::context_id));
        ASSAY_STEP(4, driver.value()->has(Feature::advise_by_ordinal));
        ASSAY_STEP(5, !driver.value()->has(Feature::advise_by_location));
        const auto context = PrimaryContext::retain(driver.value(), 0);
        ASSAY_STEP(6, bool(context));
        ASSAY_STEP(7, bool(Current::of(*context.value())));
        driver.value()->table().cuDevicePrimaryCtxReset_v2(0);
        ASSAY_STEP(8, !Current::of(*context.value()) && context.value()->lost());
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace assay::cuda
