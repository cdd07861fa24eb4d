// Events.
#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

class EventTest : public DriverTest {};

TEST_F(EventTest, CreationRefusesWhatItDoesNotKnow) {
  Event made = nullptr;
  EXPECT_EQ(cu.cuEventCreate(nullptr, 0), Status::invalid_value);
  EXPECT_EQ(cu.cuEventCreate(&made, 8), Status::invalid_value);
  EXPECT_EQ(cu.cuEventCreate(&made, event_interprocess), Status::invalid_value);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(cu.cuEventCreate(&made, event_interprocess | event_disable_timing), Status::success);
  EXPECT_EQ(cu.cuEventCreate(&made, event_blocking_sync), Status::success);
}

TEST_F(EventTest, ADestroyedEventAnswers709AndGarbage400) {
  const Event dead = event();
  EXPECT_EQ(cu.cuEventDestroy_v2(dead), Status::success);
  const Event live = event();
  const auto garbage = reinterpret_cast<Event>(std::uintptr_t{0x1230});
  for (const auto& [handle, code] :
       {std::pair{dead, Status::context_is_destroyed}, std::pair{garbage, Status::invalid_handle},
        std::pair{Event{}, Status::invalid_handle}}) {
    float ms = -1;
    EXPECT_EQ(cu.cuEventDestroy_v2(handle), code);
    EXPECT_EQ(cu.cuEventRecord(handle, nullptr), code);
    EXPECT_EQ(cu.cuEventQuery(handle), code);
    EXPECT_EQ(cu.cuEventSynchronize(handle), code);
    EXPECT_EQ(cu.cuStreamWaitEvent(stream(), handle, 0), code);
    EXPECT_EQ(cu.cuEventElapsedTime(&ms, handle, live), code);
    EXPECT_EQ(ms, -1);
  }
}

TEST_F(EventTest, HandlesAreCounted) {
  const std::uint64_t before = control.live_objects(assay_model_event);
  const Event made = event();
  EXPECT_EQ(control.live_objects(assay_model_event), before + 1);
  EXPECT_EQ(cu.cuEventDestroy_v2(made), Status::success);
  EXPECT_EQ(control.live_objects(assay_model_event), before);
}

TEST_F(EventTest, NeverRecordedIsComplete) {
  const Event mark = event();
  const Stream mine = stream();
  EXPECT_EQ(cu.cuEventQuery(mark), Status::success);
  EXPECT_EQ(cu.cuEventSynchronize(mark), Status::success);
  EXPECT_EQ(cu.cuStreamWaitEvent(mine, mark, 0), Status::success);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::success);
}

TEST_F(EventTest, ItMarksItsPlaceInTheStream) {
  const Stream mine = stream();
  const Event mark = event();
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 1, 1, mine), Status::success);
  EXPECT_EQ(cu.cuEventRecord(mark, mine), Status::success);
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 2, 1, mine), Status::success);
  EXPECT_EQ(cu.cuEventQuery(mark), Status::not_ready);
  EXPECT_EQ(host[0], 0);
  EXPECT_EQ(cu.cuEventSynchronize(mark), Status::success);
  EXPECT_EQ(host[0], 1);
  EXPECT_EQ(cu.cuEventQuery(mark), Status::success);
  EXPECT_EQ(cu.cuStreamQuery(mine), Status::not_ready);
}

TEST_F(EventTest, AnotherStreamWaitsForIt) {
  const Stream first = stream();
  const Stream second = stream();
  const Event mark = event();
  std::uint8_t* host = pinned();
  EXPECT_EQ(cu.cuMemsetD8Async(address_of(host), 1, 1, first), Status::success);
  EXPECT_EQ(cu.cuEventRecord(mark, first), Status::success);
  EXPECT_EQ(cu.cuStreamWaitEvent(second, mark, 0), Status::success);
  EXPECT_EQ(cu.cuStreamWaitEvent(second, mark, 2), Status::invalid_value);
  EXPECT_EQ(cu.cuEventDestroy_v2(mark), Status::success);  // what waits for it still does
  sync(second);
  EXPECT_EQ(host[0], 1);
}

TEST_F(EventTest, AStreamOfAnotherContextDoesNotRecordIt) {
  const Event mark = event();
  Context second = nullptr;
  ASSERT_EQ(cu.cuCtxCreate_v2(&second, 0, 0), Status::success);
  const Stream theirs = stream();
  EXPECT_EQ(cu.cuEventRecord(mark, theirs), Status::invalid_handle);
  EXPECT_EQ(cu.cuEventRecord(mark, nullptr), Status::invalid_handle);
  EXPECT_EQ(cu.cuStreamWaitEvent(theirs, mark, 0), Status::success);  // that is allowed
  ASSERT_EQ(cu.cuCtxDestroy_v2(second), Status::success);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), Status::success);
}

TEST_F(EventTest, ElapsedTime) {
  const Stream mine = stream();
  const Event start = event();
  const Event end = event();
  const Event untimed = event(event_disable_timing);
  float ms = -1;
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, end), Status::invalid_handle);
  EXPECT_EQ(cu.cuEventRecord(start, mine), Status::success);
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, end), Status::invalid_handle);
  EXPECT_EQ(cu.cuEventRecord(untimed, mine), Status::success);
  EXPECT_EQ(cu.cuEventRecord(end, mine), Status::success);
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, end), Status::not_ready);
  EXPECT_EQ(ms, -1);
  sync(mine);
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, end), Status::success);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(cu.cuEventElapsedTime(&ms, start, untimed), Status::invalid_handle);
  EXPECT_EQ(cu.cuEventElapsedTime(nullptr, start, end), Status::invalid_value);
}

}  // namespace
}  // namespace assay::model_tests
