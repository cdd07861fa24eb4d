// Lazy values, faults of their sources and growth, broken on purpose.
#pragma once

#include <algorithm>
#include <set>

#include "mutants.hpp"

namespace assay::properties::mutants {

// --- laziness

/// A view of an unread value has its parent read.
struct ViewReadsParent : RealBytesOps {
  static Result<Bytes> view(const Bytes& value, std::size_t start, std::size_t end) {
    if (!value.is_exclusive()) ASSAY_TRY_VOID(value.read());
    return value.view(start, end);
  }
};

/// A clone has a unit of its own, so that each clone reads (bytes:W-12).
struct CloneReadsAgain : RealBytesOps {
  static Result<Bytes> clone(Bytes& value) {
    ASSAY_TRY(Bytes copy, value.clone());
    if (copy.is_resident() || copy.len() < 2) return copy;
    ASSAY_TRY(Bytes right, copy.split(1));
    ASSAY_TRY_VOID(copy.join(std::move(right)));
    return copy;
  }
};

/// Permission to copy is not asked for a first read (bytes:W-04).
struct NoCopyReads : RealBytesOps {
  static Result<std::span<const std::byte>> read_no_copy(const Bytes& value) {
    return value.read();
  }
};

/// A write brings the bytes for all clones before it forks.
struct WriteReadsForAll : RealBytesOps {
  static Result<std::span<std::byte>> write(Bytes& value) {
    ASSAY_TRY_VOID(value.read());
    return value.write();
  }
};

/// Printing materialises (bytes:W-05).
struct PrintingReads : RealBytesOps {
  static std::string format(const Bytes& value) {
    (void)value.read().has_value();
    return RealBytesOps::format(value);
  }
};

/// Values are read before their lengths are compared (bytes:W-05).
struct EqualsReadsFirst : RealBytesOps {
  static Result<bool> equals(const Bytes& a, const Bytes& b) {
    ASSAY_TRY_VOID(a.read());
    ASSAY_TRY_VOID(b.read());
    return a.equals(b);
  }
};

struct ChunksMaterialise : RealBytesOps {
  static Result<std::vector<std::byte>> read_chunks(const Bytes& value, std::size_t size) {
    if (size != 0) ASSAY_TRY_VOID(value.read());
    return RealBytesOps::read_chunks(value, size);
  }
};

/// A length that does not fit is cut to what there is (bytes:W-03, bytes:W-06).
struct CopyIntoTakesWhatFits : RealBytesOps {
  static Result<void> copy_into(const Bytes& value, std::span<std::byte> to, std::size_t offset) {
    if (offset > value.len()) return {};
    return value.copy_into(to.first(std::min(to.size(), value.len() - offset)), offset);
  }
};

/// The right part of an unread value starts where the whole does (bytes:W-02).
struct UnreadSplitLosesOffset : RealBytesOps {
  static Result<Bytes> split(Bytes& value, std::size_t offset, SplitPolicy policy) {
    if (value.is_resident() || offset > value.len()) return value.split(offset, policy);
    ASSAY_TRY(Bytes right, value.view(0, value.len() - offset));
    value.truncate(offset);
    return right;
  }
};

/// Only the length is cut, so that a later read brings the whole.
struct TruncateKeepsUnit : RealBytesOps {
  static void truncate(Bytes& value, std::size_t size) {
    if (value.is_resident()) return value.truncate(size);
    const Bytes other = value.clone().value();
    node_pool::fail_nth(1);
    value.truncate(size);
    node_pool::fail_nth(0);
  }
};

/// Joining brings the bytes.
struct JoinReads : RealBytesOps {
  static Result<void> join(Bytes& left, Bytes& right) {
    ASSAY_TRY_VOID(left.read());
    ASSAY_TRY_VOID(right.read());
    return left.join(std::move(right));
  }
};

// --- what a value says of itself

/// A mirror still says where its bytes came from (bytes:W-22).
struct MirrorSaysFile : RealBytesOps {
  static AllocationProperty property(const Bytes& value) {
    return *value.path() == '\0' ? value.property() : AllocationProperty::file;
  }
};

/// The origin that a lazy value keeps alive is not counted.
struct RetainedForgetsOrigin : RealBytesOps {
  static std::size_t retained(const Bytes& value) {
    return value.is_resident() ? value.retained_bytes() : 0;
  }
};

// --- failures

/// A read that failed fails for ever (bytes:W-04).
struct FailedReadPoisons : RealBytesOps {
  static std::set<const Bytes*>& poisoned() {
    static thread_local std::set<const Bytes*> values;
    return values;
  }
  static Result<std::span<const std::byte>> read(Bytes& value, CheckingBacking&) {
    if (!poisoned().contains(&value)) {
      auto bytes = value.read();
      if (!bytes && bytes.error().code == ErrorCode::read_failed) poisoned().insert(&value);
      return bytes;
    }
    return Error::make(ErrorCode::read_failed, "read");
  }
  static void drop(Bytes& value, CheckingBacking&) {
    poisoned().erase(&value);
    value = Bytes();
  }
};

/// What a failing read brought counts as read.
struct FailedReadKeepsHalf : RealBytesOps {
  static Result<std::span<const std::byte>> read(Bytes& value, CheckingBacking&) {
    auto bytes = value.read();
    if (bytes || bytes.error().code != ErrorCode::read_failed) return bytes;
    Bytes half = Bytes::zeroed(value.len(), value.home()).value();
    ASSAY_TRY_VOID(half.shared());
    value = std::move(half);
    return bytes;
  }
};

/// A changed file goes unnoticed if its bytes are in a mapping.
struct MappingIsTrusted : RealBytesOps {
  static Result<std::span<const std::byte>> read(Bytes& value, CheckingBacking&) {
    if (value.is_resident()) return value.span();
    return value.read();
  }
};

/// The mirror of a read that failed goes back with what had come.
struct FailedMirrorSkipsWipe : RealBytesOps {
  static Result<std::span<const std::byte>> read(Bytes& value, CheckingBacking& backing) {
    const ShortFills none(backing, 0);
    return value.read();
  }
};

// --- giving away and growing

/// A buffer is had from a shared block, by a copy.
struct DetachCopies : RealBytesOps {
  static Result<UnifiedBuffer> detach(Bytes& value) {
    auto taken = UnifiedBuffer::detach(value);
    if (taken || taken.error().code != ErrorCode::not_unique || value.is_empty()) return taken;
    ASSAY_TRY(UnifiedBuffer copy, UnifiedBuffer::create(value.len()));
    std::vector<std::byte> bytes(value.len());
    ASSAY_TRY_VOID(value.copy_into(bytes));
    ASSAY_TRY_VOID(copy.write_at(0, bytes));
    value = Bytes();
    return copy;
  }
};

/// Growth always goes to a new block, where pages could have moved.
struct GrowthCopiesPages : RealBytesOps {
  static Result<void> extend(Bytes& value, std::span<const std::byte> bytes,
                             CheckingBacking& backing) {
    if (!value.is_exclusive() || bytes.size() <= value.capacity() - value.len()) {
      return value.extend(bytes);
    }
    const std::vector<std::byte> added(bytes.begin(), bytes.end());
    ASSAY_TRY(Bytes fresh, Bytes::with_capacity(value.len() + added.size(), value.home()));
    ASSAY_TRY_VOID(fresh.extend(value.span()));
    value = std::move(fresh);
    return RealBytesOps::extend(value, added, backing);
  }
};

}  // namespace assay::properties::mutants
