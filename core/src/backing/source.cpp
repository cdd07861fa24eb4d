#include "assay/backing/source.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "assay/base/secure_wipe.hpp"

namespace assay {
namespace {

bool in_block(Block block, std::size_t offset, std::size_t size) noexcept {
  return offset <= block.capacity && size <= block.capacity - offset;
}

std::byte* host_pointer(Block block, std::size_t offset) noexcept {
  return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(block.address)) + offset;
}

Error out_of_block(const char* feature, const char* backing, std::size_t size,
                   Block block) noexcept {
  Error error = Error::make(ErrorCode::out_of_range, feature, backing, size);
  error.limit = block.capacity;
  return error;
}

}  // namespace

const char* capability_name(std::uint32_t index) noexcept {
  static constexpr std::array names = {
#define ASSAY_CAPABILITY(name, meaning) #name,
#include "assay/backing/capabilities.def"
#undef ASSAY_CAPABILITY
  };
  return index < names.size() ? names[index] : "";
}

Result<void> Source::copy_in(Block block, std::size_t offset,
                             std::span<const std::byte> from) noexcept {
  if (!in_block(block, offset, from.size())) {
    return out_of_block("copy_in", info_.id, from.size(), block);
  }
  if (from.empty()) return {};
  return do_copy_in(block, offset, from);
}

Result<void> Source::copy_out(Block block, std::size_t offset, std::span<std::byte> to) noexcept {
  if (!in_block(block, offset, to.size())) {
    return out_of_block("copy_out", info_.id, to.size(), block);
  }
  if (to.empty()) return {};
  return do_copy_out(block, offset, to);
}

Result<void> Source::copy_between(Block to, std::size_t to_offset, Source& from_source, Block from,
                                  std::size_t from_offset, std::size_t size) noexcept {
  if (!in_block(to, to_offset, size)) return out_of_block("copy_between", info_.id, size, to);
  if (!in_block(from, from_offset, size)) {
    return out_of_block("copy_between", from_source.info().id, size, from);
  }
  if (size == 0) return {};
  // Each side is asked for its own stream: neither knows the other's blocks.
  if (from_source.can(Capabilities::host_access)) {
    ASSAY_TRY_VOID(from_source.do_settle(from));
    ASSAY_TRY_VOID(do_copy_in(to, to_offset, {host_pointer(from, from_offset), size}));
    return from_source.do_verify(from);  // of a mapping, what was copied may have been torn
  }
  if (can(Capabilities::host_access)) {
    ASSAY_TRY_VOID(do_settle(to));
    return from_source.do_copy_out(from, from_offset, {host_pointer(to, to_offset), size});
  }
  if (info_.device >= 0 && info_.device == from_source.info_.device) {
    ASSAY_TRY_VOID(from_source.do_settle(from));
    ASSAY_TRY_VOID(do_settle(to));
    return do_copy_on_device(to.address + to_offset, from.address + from_offset, size);
  }
  return copy_through_host(to, to_offset, from_source, from, from_offset, size);
}

Result<void> Source::copy_through_host(Block to, std::size_t to_offset, Source& from_source,
                                       Block from, std::size_t from_offset,
                                       std::size_t size) noexcept {
  std::array<std::byte, 16384> buffer;
  for (std::size_t done = 0; done < size;) {
    const std::span<std::byte> part(buffer.data(), std::min(buffer.size(), size - done));
    ASSAY_TRY_VOID(from_source.do_copy_out(from, from_offset + done, part));
    ASSAY_TRY_VOID(do_copy_in(to, to_offset + done, part));
    done += part.size();
  }
  return {};
}

Result<void> Source::fill(Block block, std::size_t offset, std::size_t size,
                          std::byte value) noexcept {
  if (!in_block(block, offset, size)) return out_of_block("fill", info_.id, size, block);
  if (size == 0) return {};
  return do_fill(block, offset, size, value);
}

Result<std::span<std::byte>> Source::host_bytes(Block block) noexcept {
  if (!can(Capabilities::host_access)) {
    return Error::make(ErrorCode::not_supported, "host_bytes", info_.id, block.capacity);
  }
  return std::span<std::byte>(host_pointer(block, 0), block.capacity);
}

Result<void> Source::do_copy_in(Block block, std::size_t offset,
                                std::span<const std::byte> from) noexcept {
  if (!can(Capabilities::host_access)) {
    return Error::make(ErrorCode::not_supported, "copy_in", info_.id, from.size());
  }
  std::memmove(host_pointer(block, offset), from.data(), from.size());
  return {};
}

Result<void> Source::do_copy_out(Block block, std::size_t offset,
                                 std::span<std::byte> to) noexcept {
  if (!can(Capabilities::host_access)) {
    return Error::make(ErrorCode::not_supported, "copy_out", info_.id, to.size());
  }
  std::memmove(to.data(), host_pointer(block, offset), to.size());
  return {};
}

Result<void> Source::do_verify(Block) noexcept {
  return {};
}

Result<void> Source::do_settle(Block) noexcept {
  return {};
}

Result<void> Source::do_copy_on_device(std::uint64_t, std::uint64_t, std::size_t size) noexcept {
  return Error::make(ErrorCode::not_supported, "copy_between", info_.id, size);
}

Result<void> Source::do_fill(Block block, std::size_t offset, std::size_t size,
                             std::byte value) noexcept {
  if (!can(Capabilities::host_access)) {
    return Error::make(ErrorCode::not_supported, "fill", info_.id, size);
  }
  durable_fill(host_pointer(block, offset), size, std::to_integer<unsigned char>(value));
  return {};
}

}  // namespace assay
