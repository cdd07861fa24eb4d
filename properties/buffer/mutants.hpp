// Operations broken on purpose. Each must be caught by the property it is listed with.
#pragma once

#include <algorithm>
#include <string_view>

#include "bytes_ops.hpp"
#include "zero_on_grow.hpp"

namespace assay::properties::mutants {

// --- splitting and joining

/// The right part is a copy, as in the seed.
struct SplitCopies : RealBytesOps {
  static Result<Bytes> split(Bytes& value, std::size_t offset, SplitPolicy policy) {
    ASSAY_TRY(Bytes right, value.split(offset, policy));
    ASSAY_TRY(const auto bytes, right.read());
    return Bytes::from_span(bytes, right.home());
  }
};

/// An empty right part forgets its room (fault:B-03).
struct SplitLosesRoom : RealBytesOps {
  static Result<Bytes> split(Bytes& value, std::size_t offset, SplitPolicy policy) {
    ASSAY_TRY(Bytes right, value.split(offset, policy));
    if (right.is_empty()) right = Bytes();
    return right;
  }
};

struct SplitLosesAByte : RealBytesOps {
  static Result<Bytes> split(Bytes& value, std::size_t offset, SplitPolicy policy) {
    ASSAY_TRY(Bytes right, value.split(offset, policy));
    if (right.len() > 1) right.truncate(right.len() - 1);
    return right;
  }
};

struct JoinAppends : RealBytesOps {
  static Result<void> join(Bytes& left, Bytes& right) {
    ASSAY_TRY(const auto bytes, right.read());
    ASSAY_TRY_VOID(left.extend(bytes));
    right = Bytes();
    return {};
  }
};

// --- views

struct ViewCopies : RealBytesOps {
  static Result<Bytes> view(const Bytes& value, std::size_t start, std::size_t end) {
    ASSAY_TRY(const Bytes window, value.view(start, end));
    ASSAY_TRY(const auto bytes, window.read());
    ASSAY_TRY(Bytes copy, Bytes::from_span(bytes, value.home()));
    ASSAY_TRY_VOID(copy.shared());
    return copy;
  }
};

/// The window slides by one where there is room for it.
struct ViewSlides : RealBytesOps {
  static Result<Bytes> view(const Bytes& value, std::size_t start, std::size_t end) {
    const std::size_t by = end < value.len() && end > start ? 1 : 0;
    return value.view(start + by, end + by);
  }
};

// --- copy on write

/// A view is taken for the sole owner (fault:B-01).
struct WritesInPlace : RealBytesOps {
  static Result<std::span<std::byte>> write(Bytes& value) {
    // Not into the pages of a file, which would end the process.
    if (!value.is_resident() || *value.path() != '\0') return value.write();
    return std::span<std::byte>(const_cast<std::byte*>(value.data()), value.len());
  }
};

/// No uniqueness test (bytes:W-11).
struct AlwaysForks : RealBytesOps {
  static Result<std::span<std::byte>> write(Bytes& value) {
    if (value.is_shared() && value.is_resident()) {
      ASSAY_TRY(value, Bytes::from_span(value.span(), value.home()));
    }
    return value.write();
  }
};

struct ForkLosesLastByte : RealBytesOps {
  static Result<std::span<std::byte>> write(Bytes& value) {
    const bool shared = value.is_shared();
    auto written = value.write();
    if (written && shared && !value.is_empty()) written.value().back() = std::byte{0};
    return written;
  }
};

struct CloneShares : RealBytesOps {
  static Result<Bytes> clone(Bytes& value) {
    ASSAY_TRY_VOID(value.shared());
    return value.clone();
  }
};

/// An append to nothing still forks (bytes:W-07).
struct EmptyExtendForks : RealBytesOps {
  static Result<void> extend(Bytes& value, std::span<const std::byte> bytes, CheckingBacking&) {
    ASSAY_TRY_VOID(value.write());
    return value.extend(bytes);
  }
};

/// Growth shows what the block held before.
struct ResizeForgetsZeros : RealBytesOps {
  static Result<void> resize(Bytes& value, std::size_t size) {
    const std::size_t before = value.len();
    ASSAY_TRY_VOID(value.resize(size));
    if (size > before) value.write().value()[before] = std::byte{0xcd};
    return {};
  }
};

/// A failing split has already given the right part up.
struct FailureTears : RealBytesOps {
  static Result<std::span<std::byte>> write(Bytes& value) {
    auto written = value.write();
    if (!written && value.len() > 1) value.truncate(1);
    return written;
  }
};

/// A handle is forgotten when memory is out.
struct FailureLeaks : RealBytesOps {
  static Result<Bytes> split(Bytes& value, std::size_t offset, SplitPolicy policy) {
    auto right = value.split(offset, policy);
    if (!right && right.error().code == ErrorCode::out_of_memory && value.is_shared()) {
      static std::vector<Bytes> forgotten;
      forgotten.push_back(value.clone().value());
    }
    return right;
  }
};

// --- wiping

/// Wipes at most `limit` bytes while it lives: how a mutant breaks the controller's wipe.
class ShortFills {
 public:
  ShortFills(CheckingBacking& backing, std::size_t limit) : backing_(backing) {
    backing_.fill_limit = limit;
  }
  ~ShortFills() { backing_.fill_limit = SIZE_MAX; }
  ShortFills(const ShortFills&) = delete;
  ShortFills& operator=(const ShortFills&) = delete;

 private:
  CheckingBacking& backing_;
};

struct DropSkipsWipe : RealBytesOps {
  static void drop(Bytes& value, CheckingBacking& backing) {
    const ShortFills none(backing, 0);
    value = Bytes();
  }
};

/// What a truncated value once held stays (the mark is ignored).
struct WipesLengthOnly : RealBytesOps {
  static void drop(Bytes& value, CheckingBacking& backing) {
    const ShortFills some(backing, value.len());
    value = Bytes();
  }
};

/// The block that growth left behind keeps its bytes (fault:B-17).
struct MovedGrowthSkipsWipe : RealBytesOps {
  static Result<void> extend(Bytes& value, std::span<const std::byte> bytes,
                             CheckingBacking& backing) {
    const ShortFills none(backing, 0);
    return value.extend(bytes);
  }
};

// --- buffers

/// Slack left by a shrink is shown again (fault:B-15).
struct GrowShowsStale : RealBufferOps {
  static Result<void> grow_in_place(UnifiedBuffer& buffer, std::size_t size, CheckingBacking&) {
    const auto* const first = buffer.as_span().value().data();
    const std::size_t before = buffer.size();
    std::vector<std::byte> stale;
    if (size > before && size <= buffer.capacity()) stale.assign(first + before, first + size);
    ASSAY_TRY_VOID(buffer.try_grow_in_place(size));
    std::copy(stale.begin(), stale.end(), const_cast<std::byte*>(first) + before);
    return {};
  }
};

/// The zeroed range starts one byte early (fault:B-16).
struct GrowZeroesTooMuch : RealBufferOps {
  static Result<void> grow_in_place(UnifiedBuffer& buffer, std::size_t size, CheckingBacking&) {
    const std::size_t before = buffer.size();
    ASSAY_TRY_VOID(buffer.try_grow_in_place(size));
    if (size > before && before != 0) range(buffer, before - 1, 1)[0] = std::byte{0};
    return {};
  }
};

/// Shrinking writes (fault:B-16).
struct ShrinkWrites : RealBufferOps {
  static Result<void> grow_in_place(UnifiedBuffer& buffer, std::size_t size, CheckingBacking&) {
    const bool shrinks = size < buffer.size();
    ASSAY_TRY_VOID(buffer.try_grow_in_place(size));
    if (shrinks && size != 0) range(buffer, size - 1, 1)[0] = std::byte{0};
    return {};
  }
};

/// Access does not move the written-up-to mark.
struct AccessForgetsMark : RealBufferOps {
  static std::span<std::byte> range(UnifiedBuffer& buffer, std::size_t offset, std::size_t size) {
    const auto bytes = buffer.as_span().value().subspan(offset, size);
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
  }
};

struct BufferDropSkipsWipe : RealBufferOps {
  static void drop(UnifiedBuffer& buffer, CheckingBacking& backing) {
    const ShortFills none(backing, 0);
    buffer = UnifiedBuffer();
  }
};

/// Only the logical size is wiped, not what a shrink left behind.
struct BufferWipesSizeOnly : RealBufferOps {
  static void drop(UnifiedBuffer& buffer, CheckingBacking& backing) {
    const ShortFills some(backing, buffer.size());
    buffer = UnifiedBuffer();
  }
};

struct MovedResizeSkipsWipe : RealBufferOps {
  static Result<void> resize(UnifiedBuffer& buffer, std::size_t size, CheckingBacking& backing) {
    const bool moves = size > buffer.capacity();
    const ShortFills some(backing, moves ? 0 : SIZE_MAX);
    return buffer.resize(size);
  }
};

}  // namespace assay::properties::mutants
