#include "context.hpp"

#include <unistd.h>

#include <deque>
#include <map>
#include <mutex>

#include "immortal.hpp"
#include "memory.hpp"
#include "mutants.hpp"
#include "profile.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

struct Primary {
  ContextRecord* record = nullptr;  ///< null: not active
  std::uint64_t retains = 0;
  unsigned flags = 0;
};

/// Handle values are no addresses: whoever dereferences one faults. A primary context has one value
/// for the device, in every life.
constexpr std::uintptr_t primary_base = std::uintptr_t{0xc1} << 56;
constexpr std::uintptr_t created_base = std::uintptr_t{0xc2} << 56;
constexpr std::uintptr_t value_step = 0x100;

struct Contexts {
  std::mutex mutex;
  std::deque<ContextRecord> records;  ///< never freed
  std::map<Context, ContextRecord*> live;
  std::array<Primary, 8> primaries{};
  std::uint64_t created = 0;
  std::uint64_t last_id = 0;
};
Contexts& contexts() {
  static Immortal<Contexts> all;
  return *all;
}

constinit std::atomic<Status> everywhere{Status::success};

thread_local constinit ThreadState thread_state;

std::size_t index_of(Device device) {
  return static_cast<std::size_t>(device);
}

/// Pre: the lock is held.
ContextRecord* make_record(Contexts& all, Context handle, Device device, unsigned flags,
                           const Site& site) {
  ContextRecord& record = all.records.emplace_back();
  record.handle = handle;
  record.id = ASSAY_MODEL_BROKEN("context_id_is_new") ? 1 : ++all.last_id;
  record.device = device;
  record.flags = flags;
  record.created = site;
  all.live[handle] = &record;
  return &record;
}

/// The context is gone for every thread; its streams and memory are still there. Pre: the lock is
/// held. False if it was gone before.
bool bury(Contexts& all, ContextRecord& context) {
  if (!context.alive.load(std::memory_order_acquire)) return false;
  if (const Site* call = this_thread().call) context.ended = *call;
  context.alive.store(false, std::memory_order_release);
  all.live.erase(context.handle);
  Primary& primary = all.primaries[index_of(context.device)];
  if (primary.record == &context) primary.record = nullptr;
  return true;
}

void clear(ContextRecord& context) {
  end_streams_of(context);
  free_memory_of(context);
}

}  // namespace

ThreadState& this_thread() noexcept {
  return thread_state;
}

int thread_id() noexcept {
  int& id = this_thread().id;
  if (id == 0) id = gettid();
  return id;
}

std::string describe(const ContextRecord& context) {
  std::string text =
      "context " + std::to_string(context.id) + ", made by " + describe(context.created);
  if (context.alive.load(std::memory_order_acquire)) return text;
  text += ", which " + describe(context.ended) + " ended";
  const ContextRecord* const reborn = find_context(context.handle);
  if (reborn != nullptr) {
    text += " (its handle is that of context " + std::to_string(reborn->id) + " by now)";
  }
  return text;
}

std::string describe_live_contexts() {
  const std::vector<const ContextRecord*> live = live_context_list();
  if (live.empty()) return "no context is live";
  constexpr std::size_t named_max = 3;
  std::string text;
  for (std::size_t i = 0; i < live.size() && i < named_max; ++i) {
    text += (i == 0 ? "" : "; ") + describe(*live[i]) + ", is live";
    const int thread = live[i]->thread.load(std::memory_order_relaxed);
    if (thread != 0) text += ", current last on thread " + std::to_string(thread);
  }
  return text;
}

const ContextRecord* last_life(Context handle) noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  const ContextRecord* last = nullptr;
  for (const ContextRecord& record : all.records) {
    if (record.handle == handle) last = &record;
  }
  return last;
}

ContextRecord* current_context() noexcept {
  const ThreadState& thread = thread_state;
  return thread.depth == 0 ? nullptr : thread.stack[thread.depth - 1];
}

ContextRecord* find_context(Context handle) noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.live.find(handle);
  return found == all.live.end() ? nullptr : found->second;
}

bool device_in_use(Device device) noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  for (const auto& [handle, record] : all.live) {
    if (record->device == device) return true;
  }
  return false;
}

void poison(ContextRecord& context, Status code) noexcept {
  context.sticky.store(code, std::memory_order_release);
}

void poison_all(Status code) noexcept {
  everywhere.store(code, std::memory_order_release);
}

Status poisoned_all() noexcept {
  return everywhere.load(std::memory_order_acquire);
}

ContextRecord* create_context(Device device, unsigned flags, const Site& site) {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  const auto handle = reinterpret_cast<Context>(created_base + ++all.created * value_step);
  return make_record(all, handle, device, flags, site);
}

ContextRecord* retain_primary(Device device, const Site& site) {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  Primary& primary = all.primaries[index_of(device)];
  ++primary.retains;
  if (primary.record == nullptr) {
    const auto handle =
        reinterpret_cast<Context>(primary_base + (index_of(device) + 1) * value_step);
    primary.record = make_record(all, handle, device, primary.flags, site);
    primary.record->primary = true;
  }
  return primary.record;
}

Status release_primary(Device device) noexcept {
  Contexts& all = contexts();
  ContextRecord* last = nullptr;
  {
    const std::scoped_lock lock(all.mutex);
    Primary& primary = all.primaries[index_of(device)];
    if (primary.retains == 0) return Status::invalid_context;
    if (ASSAY_MODEL_BROKEN("retains_are_counted")) primary.retains = 1;
    if (--primary.retains == 0) last = primary.record;
    if (last != nullptr) bury(all, *last);
  }
  if (last != nullptr) clear(*last);
  return Status::success;
}

void reset_primary(Device device) noexcept {
  Contexts& all = contexts();
  ContextRecord* record = nullptr;
  {
    const std::scoped_lock lock(all.mutex);
    record = all.primaries[index_of(device)].record;
    if (record != nullptr) bury(all, *record);
  }
  if (record != nullptr) clear(*record);
}

void end_context(ContextRecord& context) noexcept {
  Contexts& all = contexts();
  {
    const std::scoped_lock lock(all.mutex);
    if (!bury(all, context)) return;
  }
  clear(context);
}

PrimaryState primary_state(Device device) noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  const Primary& primary = all.primaries[index_of(device)];
  return {primary.flags, primary.record != nullptr};
}

void set_primary_flags(Device device, unsigned flags) noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  all.primaries[index_of(device)].flags = flags;
}

bool was_context(Context handle) noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  for (const ContextRecord& record : all.records) {
    if (record.handle == handle) return true;
  }
  return false;
}

std::uint64_t live_contexts() noexcept {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  return all.live.size();
}

std::vector<const ContextRecord*> live_context_list() {
  Contexts& all = contexts();
  const std::scoped_lock lock(all.mutex);
  std::vector<const ContextRecord*> list;
  for (const auto& [handle, record] : all.live) list.push_back(record);
  return list;
}

}  // namespace assay::cuda::model
