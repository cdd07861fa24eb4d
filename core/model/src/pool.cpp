#include "pool.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "handle_table.hpp"
#include "immortal.hpp"
#include "mutants.hpp"
#include "pool_registry.hpp"
#include "profile.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

bool same_place(Location a, Location b) {
  return a.type == b.type && a.id == b.id;
}

/// Of the location and type that it serves. Pre: the lock is held.
PoolPointer default_in(Pools& all, Location location, AllocationType type, const Site& site) {
  for (const PoolPointer& pool : all.list) {
    if (pool->is_default && pool->type == type && same_place(pool->location, location)) return pool;
  }
  MemPoolProps properties{};
  properties.alloc_type = type;
  properties.location = location;
  PoolPointer pool = enter_pool(all, properties, site);
  pool->is_default = true;
  return pool;
}

}  // namespace

Pools& pools() noexcept {
  static Immortal<Pools> all;
  return *all;
}

PoolPointer enter_pool(Pools& all, const MemPoolProps& properties, const Site& site) {
  auto pool = std::make_shared<Pool>();
  const Location location = properties.location;
  const bool on_host =
      location.type == LocationType::host || location.type == LocationType::host_numa;
  const bool managed = properties.alloc_type == AllocationType::managed;
  pool->type = properties.alloc_type;
  pool->location = location;
  pool->kind = managed ? Kind::managed : on_host ? Kind::pinned : Kind::pooled;
  pool->device = location.type == LocationType::device ? location.id : 0;
  pool->bytes_max = properties.max_size != 0 ? properties.max_size : ~std::uint64_t{0};
  pool->created = site;
  for (std::size_t device = 0; device < Pool::device_max; ++device) {
    const bool own = pool->kind == Kind::pooled && static_cast<Device>(device) == pool->device;
    pool->access[device] = managed || own ? AccessFlags::read_write : AccessFlags::none;
  }
  pool->handle = all.handles.insert(pool);
  all.list.push_back(pool);
  return pool;
}

void leave_if_done(Pools& all, const PoolPointer& pool) noexcept {
  if (!pool->destroyed || pool->blocks != 0) return;
  const std::uint64_t released = pool->reserve.clear();
  if (pool->kind != Kind::pinned) credit_device(pool->device, released);
  std::erase(all.list, pool);
}

PoolPointer find_pool(MemPool handle) noexcept {
  return pools().handles.find(handle).object;
}

PoolPointer make_pool(const MemPoolProps& properties, const Site& site) {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  return enter_pool(all, properties, site);
}

bool destroy_pool(MemPool handle, const Site& site) noexcept {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  const PoolPointer pool = all.handles.find(handle).object;
  if (pool == nullptr || pool->is_default || all.handles.erase(handle) == nullptr) return false;
  if (!ASSAY_MODEL_BROKEN("pool_destroy_restores_default")) std::erase(all.current, pool);
  pool->destroyed = true;
  pool->destroyed_by = site;
  leave_if_done(all, pool);
  return true;
}

PoolPointer default_pool(Location location, AllocationType type) {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  return default_in(all, location, type, {"the driver", 0, nullptr});
}

PoolPointer current_pool(Location location, AllocationType type) {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  for (const PoolPointer& pool : all.current) {
    if (pool->type == type && same_place(pool->location, location)) return pool;
  }
  return default_in(all, location, type, {"the driver", 0, nullptr});
}

void set_current_pool(const PoolPointer& pool) {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  std::erase_if(all.current, [&](const PoolPointer& other) {
    return other->type == pool->type && same_place(other->location, pool->location);
  });
  if (!pool->is_default) all.current.push_back(pool);
}

// --- Reserve ---

namespace {

/// Pre: both locks are held.
void shrink(Pool& pool, std::uint64_t keep, const StreamOrder& host) {
  pool.reserve.settle(host);
  const std::uint64_t released = pool.reserve.shrink_to(keep);
  if (pool.kind != Kind::pinned) credit_device(pool.device, released);
}

}  // namespace

void trim_pool(Pool& pool, std::uint64_t keep) {
  scheduler().consult_host_order([&](const StreamOrder& host) {
    const std::scoped_lock lock(pools().mutex);
    shrink(pool, keep, host);
  });
}

void release_unused_reserve() noexcept {
  if (!pools().any_block.load(std::memory_order_acquire)) return;
  scheduler().consult_host_order([](const StreamOrder& host) {
    Pools& all = pools();
    const std::scoped_lock lock(all.mutex);
    for (const PoolPointer& pool : all.list) {
      const bool kept = ASSAY_MODEL_BROKEN("pool_releases_at_synchronise");
      shrink(*pool, kept ? ~std::uint64_t{0} : pool->release_threshold, host);
    }
  });
}

// --- Attributes ---

bool get_pool_attribute(Pool& pool, MemPoolAttribute attribute, std::uint64_t& value) {
  const std::scoped_lock lock(pools().mutex);
  switch (attribute) {
    case MemPoolAttribute::reuse_follow_event_dependencies: value = pool.policy.event_order; break;
    case MemPoolAttribute::reuse_allow_opportunistic: value = pool.policy.opportunistic; break;
    case MemPoolAttribute::reuse_allow_internal_dependencies:
      value = pool.policy.internal_order;
      break;
    case MemPoolAttribute::release_threshold: value = pool.release_threshold; break;
    case MemPoolAttribute::reserved_mem_current: value = pool.reserve.reserved(); break;
    case MemPoolAttribute::reserved_mem_high: value = pool.reserve.high(); break;
    case MemPoolAttribute::used_mem_current: value = pool.used; break;
    case MemPoolAttribute::used_mem_high: value = pool.used_high; break;
    default: return false;
  }
  return true;
}

bool set_pool_attribute(Pool& pool, MemPoolAttribute attribute, std::uint64_t value) {
  const std::scoped_lock lock(pools().mutex);
  switch (attribute) {
    case MemPoolAttribute::reuse_follow_event_dependencies:
      pool.policy.event_order = value != 0;
      return true;
    case MemPoolAttribute::reuse_allow_opportunistic:
      pool.policy.opportunistic = value != 0;
      return true;
    case MemPoolAttribute::reuse_allow_internal_dependencies:
      pool.policy.internal_order = value != 0;
      return true;
    case MemPoolAttribute::release_threshold: pool.release_threshold = value; return true;
    case MemPoolAttribute::reserved_mem_high:
      if (value == 0) pool.reserve.reset_high();
      return value == 0;
    case MemPoolAttribute::used_mem_high:
      if (value == 0) pool.used_high = pool.used;
      return value == 0;
    default: return false;
  }
}

bool pool_permits(const Allocation& allocation, Device device, bool write) noexcept {
  if (allocation.pooled == nullptr) return true;
  const auto& access = allocation.pooled->pool->access;
  const AccessFlags granted = access[static_cast<std::size_t>(device)];
  return write ? granted == AccessFlags::read_write : granted != AccessFlags::none;
}

void set_pool_access(Pool& pool, const AccessDesc* wanted, std::size_t count, const Site& site) {
  const std::scoped_lock lock(pools().mutex);
  for (std::size_t i = 0; i < count; ++i) {
    pool.access[static_cast<std::size_t>(wanted[i].location.id)] = wanted[i].flags;
  }
  pool.access_set = site;
}

Site pool_access_set(const Allocation& allocation) noexcept {
  if (allocation.pooled == nullptr) return {};
  const std::scoped_lock lock(pools().mutex);
  return allocation.pooled->pool->access_set;
}

// --- For the report ---

PoolCounts pool_counts() noexcept {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  PoolCounts counts;
  for (const PoolPointer& pool : all.list) counts.pools += pool->is_default ? 0U : 1U;
  counts.going = all.going;
  return counts;
}

bool is_going(const Allocation& allocation) noexcept {
  if (allocation.pooled == nullptr) return false;
  const std::scoped_lock lock(pools().mutex);
  return allocation.pooled->freed;
}

std::vector<std::string> live_pool_lines() {
  Pools& all = pools();
  const std::scoped_lock lock(all.mutex);
  std::vector<std::string> lines;
  for (const PoolPointer& pool : all.list) {
    if (pool->is_default) continue;
    std::string line = "pool made by " + describe(pool->created);
    if (pool->destroyed) {
      const std::uint64_t left = pool->blocks - pool->going;
      line += ", destroyed by " + describe(pool->destroyed_by) + " with " + std::to_string(left) +
              (left == 1 ? " block" : " blocks") + " not freed";
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace assay::cuda::model
