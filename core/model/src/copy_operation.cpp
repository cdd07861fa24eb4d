#include "copy_operation.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "mutants.hpp"
#include "rules.hpp"
#include "stream_engine.hpp"

namespace assay::cuda::model {

namespace {

const std::byte* host_bytes(const Operand& operand) {
  if (!operand.is_pageable()) return alias_of(*operand.allocation, operand.range.address);
  return reinterpret_cast<const std::byte*>(operand.range.address);
}

void diagnose_if_changed(const Operand& from, std::uint64_t hash_before, const Site& site) {
  const bool readable = !from.is_pageable() || is_mapped(from.range.address, from.range.size);
  if (readable && hash_bytes(host_bytes(from), from.range.size) == hash_before) return;
  const char* what = readable ? " was changed before the copy was waited for"
                              : " was unmapped before the copy was waited for";
  diagnose(Rule::source_changed, "the source of " + describe(site) + ", " +
                                     describe_range(from.range.address, from.range.size) + "," +
                                     what);
}

template <class Value>
void set_values(std::byte* at, std::uint32_t value, std::size_t size) {
  std::fill_n(reinterpret_cast<Value*>(at), size / sizeof(Value), static_cast<Value>(value));
}

}  // namespace

Operation make_copy(const Operand& to, const Operand& from, Source source, Running running) {
  if (share(to.range, from.range)) {
    diagnose(Rule::copy_overlap, describe(running.site) + " copies " +
                                     describe_range(from.range.address, from.range.size) +
                                     " onto itself at " +
                                     describe_range(to.range.address, to.range.size));
  }
  // Pageable bytes are staged even where the program may not count on it, as a driver does; whether
  // it did count on it shows when the copy runs.
  std::shared_ptr<std::vector<std::byte>> staged;
  const bool stages = source == Source::staged && !ASSAY_MODEL_BROKEN("staged_source");
  if (stages || (source == Source::watched && from.is_pageable())) {
    const std::byte* bytes = host_bytes(from);
    staged = std::make_shared<std::vector<std::byte>>(bytes, bytes + from.range.size);
  }
  // What work before the copy may rightly change cannot be watched.
  const bool watched = source == Source::watched && !scheduler().may_change(from.range);
  const std::uint64_t hash = watched ? hash_bytes(host_bytes(from), from.range.size) : 0;

  Operation operation;
  operation.name = running.site.function;
  operation.site = running.site;
  operation.reads = {from.range};
  if (staged != nullptr) operation.reads.clear();
  operation.writes = {to.range};
  operation.device_work = true;
  operation.reaches_host =
      to.is_pageable() || to.allocation->kind == Kind::registered;  // outlives the context
  operation.run = [=]() mutable {
    const std::byte* bytes = staged != nullptr ? staged->data() : use(from, Access::read, running);
    if (bytes == nullptr) return running.fault;
    if (watched) diagnose_if_changed(from, hash, running.site);
    std::byte* target = use(to, Access::write, running);
    if (target != nullptr) std::memmove(target, bytes, to.range.size);
    return running.fault;
  };
  return operation;
}

Operation make_set(const Operand& to, std::uint32_t value, std::size_t width, Running running) {
  Operation operation;
  operation.name = running.site.function;
  operation.site = running.site;
  operation.writes = {to.range};
  operation.device_work = true;
  operation.reaches_host = to.allocation->kind == Kind::registered;
  operation.run = [=]() mutable {
    std::byte* target = use(to, Access::write, running);
    if (target == nullptr) return running.fault;
    switch (width) {
      case 1: set_values<std::uint8_t>(target, value, to.range.size); break;
      case 2: set_values<std::uint16_t>(target, value, to.range.size); break;
      default: set_values<std::uint32_t>(target, value, to.range.size); break;
    }
    return running.fault;
  };
  return operation;
}

}  // namespace assay::cuda::model
