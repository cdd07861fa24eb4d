#include "assay/backing/external.hpp"

#include <algorithm>
#include <new>

#include "assay/base/system.hpp"

namespace assay {
namespace {

SourceInfo info_of(const ExternalMemory& external) noexcept {
  return {.id = "external",
          .capabilities = Capabilities::host_access | Capabilities::thread_safe,
          .granularity = 1,
          .natural_alignment = external_alignment(external.memory.data())};
}

}  // namespace

const char* name_of(AllocationProperty property) noexcept {
  switch (property) {
    case AllocationProperty::native: return "native";
    case AllocationProperty::file: return "file";
    case AllocationProperty::pinned: return "pinned";
    case AllocationProperty::device: return "device";
    case AllocationProperty::other: return "other";
  }
  return "";
}

std::size_t external_alignment(const void* address) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  const std::size_t own = value & (~value + 1);  // lowest set bit; 0 for a null address
  return own == 0 ? page_size() : std::min<std::size_t>(own, page_size());
}

Ref<External> External::make(const ExternalMemory& external) noexcept {
  return Ref<External>::adopt(new (std::nothrow) External(external));
}

External::External(const ExternalMemory& external) noexcept
    : Source(info_of(external)), release_(external.release), context_(external.context) {}

Freed External::do_deallocate(Block block, const Release&) noexcept {
  if (release_ != nullptr) {
    auto* const data = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(block.address));
    release_(context_, {data, block.capacity});
  }
  return Freed::now;
}

}  // namespace assay
