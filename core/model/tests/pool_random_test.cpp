// Random programs on several streams, judged by the model and by a reference that keeps, for each
// operation, the set of all operations before it. Their diagnoses must agree call by call.
#include <bitset>
#include <random>
#include <utility>

#include "stream_driver.hpp"

namespace assay::model_tests {
namespace {

constexpr std::size_t operations_max = 512;
constexpr std::size_t none = operations_max;
using Operations = std::bitset<operations_max>;

struct ReferenceQueue {
  Stream stream = nullptr;  ///< null: the default stream
  bool blocking = false;
  Operations reached;  ///< its last operation, and all that is before it
};

struct ReferenceEvent {
  Event event = nullptr;
  Operations reached;
};

struct ReferenceBlock {
  DevicePointer address = 0;
  std::size_t allocated = 0;
  std::vector<std::size_t> last_use;  ///< by stream, destroyed ones at the end; or `none`
};

/// One program. Each step makes a call, and returns how many diagnoses the call deserves.
class RandomProgram {
 public:
  RandomProgram(Driver& driver, unsigned seed) : driver_(driver), random_(seed) {
    queues_ = {{nullptr, true, {}}};
    for (const bool blocking : {true, true, false, false, false}) {
      queues_.push_back({make_stream(blocking), blocking, {}});
    }
    for (int i = 0; i < 3; ++i) events_.push_back({driver_.event(), {}});
  }

  std::uint64_t step() {
    index_ = below(queues_.size());
    const std::size_t choice = below(100);
    if (choice < 15 || blocks_.empty()) return allocate();
    if (choice < 45) return use(blocks_[below(blocks_.size())]);
    if (choice < 55) return release(below(blocks_.size()));
    ReferenceEvent& event = events_[below(events_.size())];
    if (choice < 70) return record(event);
    if (choice < 88) return wait(event);
    if (choice < 92) return synchronize_event(event);
    if (choice == 96) return synchronize_all();
    if (is_default()) return 0;
    return choice < 96 ? synchronize() : replace_stream();
  }

  void end() {
    EXPECT_EQ(driver_.cu.cuCtxSynchronize(), Status::success);
    for (const ReferenceBlock& block : blocks_) {
      EXPECT_EQ(driver_.cu.cuMemFree_v2(block.address), Status::success);
    }
    for (const ReferenceEvent& each : events_) {
      EXPECT_EQ(driver_.cu.cuEventDestroy_v2(each.event), Status::success);
    }
    for (const ReferenceQueue& each : queues_) {
      if (each.stream == nullptr) continue;
      EXPECT_EQ(driver_.cu.cuStreamDestroy_v2(each.stream), Status::success);
    }
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }
  Stream make_stream(bool blocking) { return driver_.stream(blocking ? 0 : stream_non_blocking); }
  [[nodiscard]] bool is_default() const { return index_ == 0; }
  ReferenceQueue& queue() { return queues_[index_]; }

  /// The number of the operation that is enqueued now; before_ is all that is before it.
  std::size_t enqueue() {
    Operations& reached = queue().reached;
    reached |= host_;
    if (is_default()) reached |= of_blocking_;
    if (queue().blocking && !is_default()) reached |= of_default_;
    before_ = reached;
    reached.set(operations_);
    if (is_default()) of_default_ = reached;
    if (queue().blocking) of_blocking_ |= reached;
    return operations_++;
  }

  std::uint64_t allocate() {
    ReferenceBlock block;
    EXPECT_EQ(driver_.cu.cuMemAllocAsync(&block.address, 4096, queue().stream), Status::success);
    block.allocated = enqueue();
    block.last_use.assign(queues_.size(), none);
    blocks_.push_back(std::move(block));
    return 0;
  }

  std::uint64_t use(ReferenceBlock& block) {
    EXPECT_EQ(driver_.cu.cuMemsetD8Async(block.address, 1, 4096, queue().stream), Status::success);
    block.last_use[index_] = enqueue();
    return before_.test(block.allocated) ? 0 : 1;
  }

  std::uint64_t release(std::size_t which) {
    const ReferenceBlock block = std::move(blocks_[which]);
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(which));
    EXPECT_EQ(driver_.cu.cuMemFreeAsync(block.address, queue().stream), Status::success);
    enqueue();
    std::uint64_t mistakes = before_.test(block.allocated) ? 0 : 1;
    for (const std::size_t used : block.last_use) {
      if (used != none && !before_.test(used)) ++mistakes;
    }
    return mistakes;
  }

  std::uint64_t record(ReferenceEvent& event) {
    EXPECT_EQ(driver_.cu.cuEventRecord(event.event, queue().stream), Status::success);
    enqueue();
    event.reached = queue().reached;
    return 0;
  }

  std::uint64_t wait(const ReferenceEvent& event) {
    EXPECT_EQ(driver_.cu.cuStreamWaitEvent(queue().stream, event.event, 0), Status::success);
    queue().reached |= event.reached;
    enqueue();
    return 0;
  }

  std::uint64_t synchronize_event(const ReferenceEvent& event) {
    EXPECT_EQ(driver_.cu.cuEventSynchronize(event.event), Status::success);
    host_ |= event.reached;
    return 0;
  }

  std::uint64_t synchronize() {
    driver_.sync(queue().stream);
    host_ |= queue().reached;
    return 0;
  }

  std::uint64_t synchronize_all() {
    EXPECT_EQ(driver_.cu.cuCtxSynchronize(), Status::success);
    for (const ReferenceQueue& each : queues_) host_ |= each.reached;
    host_ |= of_destroyed_;
    return 0;
  }

  std::uint64_t replace_stream() {
    EXPECT_EQ(driver_.cu.cuStreamDestroy_v2(queue().stream), Status::success);
    for (ReferenceBlock& block : blocks_) {
      block.last_use.push_back(std::exchange(block.last_use[index_], none));
    }
    of_destroyed_ |= queue().reached;
    queue() = {make_stream(queue().blocking), queue().blocking, {}};
    return 0;
  }

  Driver& driver_;
  std::mt19937 random_;
  std::vector<ReferenceQueue> queues_;
  std::vector<ReferenceEvent> events_;
  std::vector<ReferenceBlock> blocks_;
  std::size_t index_ = 0;  ///< of the stream of this step
  std::size_t operations_ = 0;
  Operations before_;
  Operations host_;          ///< what the host has seen
  Operations of_blocking_;   ///< of the default and the blocking streams
  Operations of_default_;    ///< up to the last operation of the default stream
  Operations of_destroyed_;  ///< of streams that are gone
};

struct PoolRandomTest : DriverTest {};

TEST_F(PoolRandomTest, ProgramsAreJudgedAsByTheReference) {
  std::uint64_t mistakes = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    RandomProgram program(*this, seed);
    for (int i = 0; i < 300; ++i) {
      control.forget_diagnoses();
      const std::uint64_t expected = program.step();
      ASSERT_EQ(control.diagnosis_count(), expected) << "seed " << seed << ", step " << i;
      mistakes += expected;
    }
    program.end();
  }
  EXPECT_GT(mistakes, 300U);  // not all of it was in order
  EXPECT_EQ(control.live_objects(assay_model_pooled), 0U);
}

}  // namespace
}  // namespace assay::model_tests
