#include "suite/run.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>

#include "suite/observation.hpp"

namespace assay::conformance {
namespace {

using Kind = Expectation::Kind;

constexpr std::size_t jobs_most = 64;
/// The sum over all tests that run at once: 8 GiB, or a quarter of what is free.
constexpr std::size_t managed_most = std::size_t{8} << 30;

std::mutex gates_mutex;
std::vector<std::byte*> closed_gates;

void store(std::byte* flag) noexcept {
  std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(flag))
      .store(1, std::memory_order_release);
}

}  // namespace

Run::Run(const Session& opened)
    : session(opened), cu(opened.table), model(opened.model), context(opened.context) {}

void Run::code(const char* step, Status status) {
  say({Kind::code, step, static_cast<std::int64_t>(status)});
}
void Run::holds(const char* step, bool truth) {
  say({Kind::holds, step, truth ? 1 : 0});
}
void Run::value(const char* step, std::int64_t number) {
  say({Kind::value, step, number});
}
void Run::signal(const char* step, int number) {
  say({Kind::signal, step, number});
}
void Run::note(const std::string& text) {
  say_note(text);
}

void Run::must(Status status, const char* what) {
  if (status == Status::success) return;
  throw SetupFailed(
      fmt::format("{} gave {}", what, spell_code(static_cast<std::uint32_t>(status))));
}

void Run::skip(std::string why) {
  throw Skipped{std::move(why)};
}

void Run::need_lazy_model() {
  const char* const eager = std::getenv(abi::model_eager_variable);
  if (eager == nullptr || *eager == '\0' || std::strcmp(eager, "0") == 0) return;
  skip(fmt::format("{}={}: the model runs work by itself", abi::model_eager_variable, eager));
}

DevicePointer Run::device(std::size_t size) {
  DevicePointer address = 0;
  must(cu.cuMemAlloc_v2(&address, size), "preparation: cuMemAlloc");
  return address;
}

DevicePointer Run::managed(std::size_t size, unsigned flags) {
  std::size_t free = 0;
  std::size_t total = 0;
  must(cu.cuMemGetInfo_v2(&free, &total), "preparation: cuMemGetInfo");
  const std::size_t cap = std::min(managed_most, free / 4) / jobs_most;
  if (managed_live_ + size > cap) {
    skip(fmt::format("{} B of managed memory would pass this test's share of {} B", size, cap));
  }
  managed_live_ += size;
  DevicePointer address = 0;
  must(cu.cuMemAllocManaged(&address, size, flags), "preparation: cuMemAllocManaged");
  return address;
}

std::byte* Run::pinned(std::size_t size, unsigned flags) {
  void* address = nullptr;
  must(cu.cuMemHostAlloc(&address, size, flags), "preparation: cuMemHostAlloc");
  return static_cast<std::byte*>(address);
}

std::byte* Run::pageable(std::size_t size) {
  void* const address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) throw SetupFailed("preparation: mmap");
  std::memset(address, 0, size);
  return static_cast<std::byte*>(address);
}

std::byte* Run::registered(std::size_t size, unsigned flags) {
  std::byte* const address = pageable(size);
  must(cu.cuMemHostRegister_v2(address, size, flags), "preparation: cuMemHostRegister");
  return address;
}

abi::Stream Run::stream(unsigned flags) {
  abi::Stream made = nullptr;
  must(cu.cuStreamCreate(&made, flags), "preparation: cuStreamCreate");
  return made;
}

abi::Event Run::event(unsigned flags) {
  abi::Event made = nullptr;
  must(cu.cuEventCreate(&made, flags), "preparation: cuEventCreate");
  return made;
}

abi::Context Run::other_context() {
  abi::Context made = nullptr;
  must(cu.cuCtxCreate_v2(&made, 0, 0), "preparation: cuCtxCreate");
  return made;
}

void Run::fill(DevicePointer address, unsigned char byte, std::size_t size) {
  must(cu.cuMemsetD8_v2(address, byte, size), "preparation: cuMemsetD8");
  wait();
}

bool Run::filled(DevicePointer address, unsigned char byte, std::size_t size) {
  wait();
  std::vector<unsigned char> seen(size, static_cast<unsigned char>(~byte));
  must(cu.cuMemcpyDtoH_v2(seen.data(), address, size), "preparation: cuMemcpyDtoH");
  return std::all_of(seen.begin(), seen.end(), [&](unsigned char each) { return each == byte; });
}

void Run::wait() {
  must(cu.cuCtxSynchronize(), "preparation: cuCtxSynchronize");
}

void on_other_thread(const std::function<void()>& body) {
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

Gate::Gate(Run& run, abi::Stream stream)
    : flag_(run.pinned(sizeof(std::uint32_t), abi::host_alloc_device_map)) {
  std::memset(flag_, 0, sizeof(std::uint32_t));
  DevicePointer device = 0;
  run.must(run.cu.cuMemHostGetDevicePointer_v2(&device, flag_, 0),
           "preparation: cuMemHostGetDevicePointer of a gate");
  {
    const std::lock_guard lock(gates_mutex);
    closed_gates.push_back(flag_);
  }
  run.must(run.cu.cuStreamWaitValue32_v2(stream, device, 1, abi::wait_value_eq),
           "preparation: cuStreamWaitValue32");
}

Gate::~Gate() {
  open();
}

void Gate::open() noexcept {
  const std::lock_guard lock(gates_mutex);
  const auto found = std::find(closed_gates.begin(), closed_gates.end(), flag_);
  if (found == closed_gates.end()) return;
  closed_gates.erase(found);
  store(flag_);
}

void open_all_gates(const assay_model_control* model) noexcept {
  const std::lock_guard lock(gates_mutex);
  for (std::byte* flag : closed_gates) store(flag);
  closed_gates.clear();
  if (model != nullptr) model->open_gates();
}

}  // namespace assay::conformance
