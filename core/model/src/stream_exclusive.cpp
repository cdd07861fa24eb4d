// Devices without concurrent managed access: while one is busy, or may be as far as the host has
// seen, the host may not touch the managed memory that the busy streams may use [doc].
#include <algorithm>
#include <mutex>
#include <vector>

#include "immortal.hpp"
#include "mutants.hpp"
#include "profile.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

// Guards the attachments of allocations and which of them are closed. Taken before the scheduler's
// lock.
std::mutex& attachment_lock() noexcept {
  static Immortal<std::mutex> lock;
  return *lock;
}

std::vector<std::uint64_t>& closed_allocations() noexcept {  // by Allocation::id
  static Immortal<std::vector<std::uint64_t>> closed;
  return *closed;
}

using Active = StreamScheduler::Active;

// GLOBAL, HOST or SINGLE. When the stream of SINGLE is gone, what the memory was made with [hdr].
unsigned attachment_of(const Allocation& allocation) {
  if (allocation.attach_flags != mem_attach_single) return allocation.attach_flags;
  QueuePointer queue;
  const Status found = scheduler().find_stream(allocation.attach_stream, nullptr, queue);
  return found == Status::success ? mem_attach_single : allocation.flags;
}

bool may_be_in_use(const Allocation& allocation, const std::vector<Active>& active) {
  if (attachment_of(allocation) == mem_attach_single) {
    return std::any_of(active.begin(), active.end(),
                       [&](const Active& each) { return each.stream == allocation.attach_stream; });
  }
  return attachment_of(allocation) == mem_attach_global && !active.empty();
}

}  // namespace

void refresh_host_access() noexcept {
  if (profile().has(DeviceAttribute::concurrent_managed_access)) return;
  const std::scoped_lock lock(attachment_lock());
  const std::vector<Active> active = scheduler().active_streams();
  std::vector<std::uint64_t>& closed = closed_allocations();
  std::vector<std::uint64_t> closed_now;
  for (const AllocationRef& allocation : managed_allocations()) {
    const bool was_closed = std::find(closed.begin(), closed.end(), allocation->id) != closed.end();
    const bool close =
        may_be_in_use(*allocation, active) && !ASSAY_MODEL_BROKEN("managed_is_closed");
    if (close != was_closed) set_host_access(*allocation, !close);
    if (close) closed_now.push_back(allocation->id);
  }
  closed = std::move(closed_now);
}

void attach(Allocation& allocation, unsigned flags, Stream stream) noexcept {
  {
    const std::scoped_lock lock(attachment_lock());
    allocation.attach_flags = flags;
    allocation.attach_stream = flags == mem_attach_single ? stream : nullptr;
  }
  refresh_host_access();
}

bool may_use(const Allocation& allocation, Stream stream) noexcept {
  if (profile().has(DeviceAttribute::concurrent_managed_access)) return true;
  if (allocation.kind != Kind::managed) return true;
  const std::scoped_lock lock(attachment_lock());
  switch (attachment_of(allocation)) {
    case mem_attach_host: return false;
    case mem_attach_single: return allocation.attach_stream == stream;
    default: return true;
  }
}

}  // namespace assay::cuda::model
