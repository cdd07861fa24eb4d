// Property: bytes that growth exposes read zero, whatever was there before and however the buffer
// got its size; all other bytes stay; nothing outside [old size, new size) is written.
#pragma once

#include <string>
#include <vector>

#include "assay/buffer/unified_buffer.hpp"
#include "buffer_commands.hpp"
#include "bytes_ops.hpp"

namespace assay::properties {

struct RealBufferOps {
  static Result<void> grow_in_place(UnifiedBuffer& buffer, std::size_t size, CheckingBacking&) {
    return buffer.try_grow_in_place(size);
  }
  static Result<void> resize(UnifiedBuffer& buffer, std::size_t size, CheckingBacking&) {
    return buffer.resize(size);
  }
  static std::span<std::byte> range(UnifiedBuffer& buffer, std::size_t offset, std::size_t size) {
    return buffer.as_mutable_span(offset, size).value();
  }
  static void drop(UnifiedBuffer& buffer, CheckingBacking&) { buffer = UnifiedBuffer(); }
};

struct BufferCase {
  std::uint16_t size = 1;
  std::uint16_t capacity = 0;
  bool windowed = false;  ///< made with a visible window of half its size
  bool reuse_addresses = false;
  BufferCommands commands;
};

inline std::string judge_buffer(const UnifiedBuffer& buffer, const std::vector<std::byte>& model) {
  const auto bytes = buffer.as_span().value();
  if (bytes.size() != model.size()) return "size differs from the model";
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (bytes[i] != model[i]) {
      return model[i] == std::byte{0} ? "an exposed byte is not zero" : "a byte changed";
    }
  }
  return "";
}

/// Grows the buffer and the model; a refusal may change nothing.
template <class Grow>
std::string grow_both(UnifiedBuffer& buffer, std::vector<std::byte>& model, std::size_t size,
                      bool may_refuse, Grow&& grow) {
  const std::vector<std::byte> before = model;
  const auto* const data = buffer.as_span().value().data();
  const auto grown = grow(buffer, size);
  if (grown) {
    model.resize(size);
    if (may_refuse && buffer.as_span().value().data() != data) return "growth in place moved";
  } else if (!may_refuse || grown.error().code != ErrorCode::not_supported ||
             size <= buffer.capacity()) {
    return "growth was refused";
  }
  return judge_buffer(buffer, model);
}

template <class Ops>
std::string zero_on_grow_on(const Ref<CheckingBacking>& backing, const BufferCase& given) {
  const BufferOptions options{.backing = backing};
  const std::size_t size = std::size_t{given.size} + 1;
  UnifiedBuffer buffer =
      given.windowed ? UnifiedBuffer::create_with_visible_window(size, size / 2, options).value()
                     : UnifiedBuffer::create_with_capacity(size, given.capacity, options).value();
  std::vector<std::byte> model(size);
  if (given.windowed) {  // the bytes beyond the window are whatever they are, until written
    const auto bytes = buffer.as_span().value();
    for (std::size_t i = 0; i < size / 2; ++i) {
      if (bytes[i] != std::byte{0}) return "the visible window is not zero";
    }
    model.assign(bytes.begin(), bytes.end());
  }
  unsigned pattern = 1;
  for (const BufferCommand& command : given.commands) {
    std::string fault;
    switch (command.operation) {
      case BufferOperation::grow_in_place:
        fault = grow_both(buffer, model, command.x, true, [&](UnifiedBuffer& b, std::size_t n) {
          return Ops::grow_in_place(b, n, *backing);
        });
        break;
      case BufferOperation::resize:
        fault = grow_both(buffer, model, command.x, false, [&](UnifiedBuffer& b, std::size_t n) {
          return Ops::resize(b, n, *backing);
        });
        break;
      case BufferOperation::write_range:
      case BufferOperation::write_all: {
        const bool all = command.operation == BufferOperation::write_all;
        const std::size_t offset = all ? 0 : command.x % (model.size() + 1);
        const std::size_t count = all ? model.size() : command.y % (model.size() - offset + 1);
        const auto bytes = test::counting(count, ++pattern);
        const auto range = Ops::range(buffer, offset, count);
        std::copy(bytes.begin(), bytes.end(), range.begin());
        std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
        break;
      }
      case BufferOperation::freeze_and_detach: {
        Bytes frozen = buffer.freeze().value();
        buffer = UnifiedBuffer::detach(frozen).value();
        break;
      }
      case BufferOperation::count: break;
    }
    if (fault.empty()) fault = judge_buffer(buffer, model);
    if (!fault.empty()) return fault;
  }
  Ops::drop(buffer, *backing);
  if (backing->usage().live_blocks != 0) return "a block leaked";
  return backing->faults.empty() ? "" : backing->faults.front();
}

template <class Ops>
std::string zero_on_grow(const BufferCase& given) {
  return zero_on_grow_on<Ops>(CheckingBacking::make({.reuse_addresses = given.reuse_addresses}),
                              given);
}

}  // namespace assay::properties
