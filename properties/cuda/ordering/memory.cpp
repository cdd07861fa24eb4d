#include "memory.hpp"

#include "assay/backing/device_pool.hpp"
#include "assay/base/contract.hpp"

namespace assay::ordering {

using namespace cuda::abi;

namespace {

class DriverPool final : public Memory {
 public:
  explicit DriverPool(const DriverTable& cu) : cu_(cu) {
    must(cu_.cuCtxCreate_v2(&context_, 0, 0));
    MemPoolProps properties{};
    properties.alloc_type = AllocationType::pinned;
    properties.location = {LocationType::device, 0};
    must(cu_.cuMemPoolCreate(&pool_, &properties));
  }
  ~DriverPool() override {
    must(cu_.cuMemPoolDestroy(pool_));
    must(cu_.cuCtxDestroy_v2(context_));
  }

  Status allocate(DevicePointer& out, Stream stream) override {
    return cu_.cuMemAllocFromPoolAsync(&out, block_bytes, pool_, stream);
  }
  Status free(DevicePointer address, Stream stream) override {
    return cu_.cuMemFreeAsync(address, stream);
  }
  void renew_context() override {
    static_cast<void>(cu_.cuCtxDestroy_v2(context_));
    must(cu_.cuCtxCreate_v2(&context_, 0, 0));
  }

 private:
  const DriverTable& cu_;
  Context context_ = nullptr;
  MemPool pool_ = nullptr;
};

/// DevicePool on a retained primary context. Its errors that are the driver's are told as such.
class BackingPool final : public Memory {
 public:
  explicit BackingPool(Ref<cuda::PrimaryContext> context)
      : context_(std::move(context)),
        current_(cuda::Current::of(*context_).value()),
        pool_(DevicePool::make(context_).value()) {}

  Status allocate(DevicePointer& out, Stream stream) override {
    const auto block = pool_->allocate(request(stream));
    if (!block) return status_of(block.error());
    out = block.value().address;
    return Status::success;
  }
  Status free(DevicePointer address, Stream stream) override {
    const Freed freed = pool_->deallocate(Block{address, block_bytes}, request(stream));
    return freed == Freed::now ? Status::success : Status::unknown;
  }
  void renew_context() override {
    ASSAY_CONTRACT(false, "a program over the backing has spoilt its context");
  }

 private:
  static Request request(Stream stream) { return {.size = block_bytes, .stream = {stream}}; }
  static Status status_of(const Error& error) {
    return error.native == 0 ? Status::unknown : static_cast<Status>(error.native);
  }

  Ref<cuda::PrimaryContext> context_;
  cuda::Current current_;
  Ref<DevicePool> pool_;
};

}  // namespace

void must(Status status) {
  ASSAY_CONTRACT(status == Status::success, "the model refuses what every program needs");
}

std::unique_ptr<Memory> make_memory(const Ref<cuda::Driver>& driver, Through through) {
  if (through == Through::driver) return std::make_unique<DriverPool>(driver->table());
  return std::make_unique<BackingPool>(cuda::PrimaryContext::retain(driver, 0).value());
}

}  // namespace assay::ordering
