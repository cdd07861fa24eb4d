// The operations under test. A mutant derives from RealBytesOps and breaks one of them.
#pragma once

#include <fmt/format.h>

#include <string>

#include "assay/buffer/bytes.hpp"
#include "assay/buffer/format.hpp"
#include "assay/buffer/unified_buffer.hpp"
#include "checking_backing.hpp"

namespace assay::properties {

using test::CheckingBacking;

struct RealBytesOps {
  static Result<void> share(Bytes& value) { return value.shared(); }
  static Result<Bytes> clone(Bytes& value) { return value.clone(); }
  static Result<Bytes> view(const Bytes& value, std::size_t start, std::size_t end) {
    return value.view(start, end);
  }
  static Result<Bytes> split(Bytes& value, std::size_t offset, SplitPolicy policy) {
    return value.split(offset, policy);
  }
  static Result<void> join(Bytes& left, Bytes& right) { return left.join(std::move(right)); }

  static Result<std::span<const std::byte>> read(Bytes& value, CheckingBacking&) {
    return value.read();
  }
  static Result<std::span<const std::byte>> read_no_copy(const Bytes& value) {
    return value.read(Reader::no_copy());
  }
  static Result<void> copy_into(const Bytes& value, std::span<std::byte> to, std::size_t offset) {
    return value.copy_into(to, offset);
  }
  static Result<std::vector<std::byte>> read_chunks(const Bytes& value, std::size_t size) {
    std::vector<std::byte> scratch(size);
    std::vector<std::byte> all;
    ASSAY_TRY_VOID(value.read_chunks(scratch, [&](std::span<const std::byte> piece) {
      all.insert(all.end(), piece.begin(), piece.end());
      return Result<void>();
    }));
    return all;
  }
  static Result<bool> equals(const Bytes& a, const Bytes& b) { return a.equals(b); }
  static Result<std::size_t> hash(const Bytes& value) { return value.hash(); }
  static std::string format(const Bytes& value) { return fmt::format("{}", value); }
  static AllocationProperty property(const Bytes& value) { return value.property(); }
  static std::size_t retained(const Bytes& value) { return value.retained_bytes(); }

  static Result<std::span<std::byte>> write(Bytes& value) { return value.write(); }
  static Result<std::span<std::byte>> write_no_copy(Bytes& value) {
    return value.write(Writer::no_copy());
  }
  static Result<void> extend(Bytes& value, std::span<const std::byte> bytes, CheckingBacking&) {
    return value.extend(bytes);
  }
  static Result<void> resize(Bytes& value, std::size_t size) { return value.resize(size); }
  static Result<void> reserve(Bytes& value, std::size_t room) { return value.reserve(room); }
  static void truncate(Bytes& value, std::size_t size) { value.truncate(size); }
  static Result<void> compact(Bytes& value) { return value.compact(); }
  static Result<UnifiedBuffer> detach(Bytes& value) { return UnifiedBuffer::detach(value); }
  static void drop(Bytes& value, CheckingBacking&) { value = Bytes(); }
};

/// The operations of RealBytesOps or of one of its mutants, chosen at run time.
struct BytesOps {
#define ASSAY_BYTES_OPS(op)                                                                       \
  op(share) op(clone) op(view) op(split) op(join) op(read) op(read_no_copy) op(copy_into)         \
      op(read_chunks) op(equals) op(hash) op(format) op(property) op(retained) op(write)          \
          op(write_no_copy) op(extend) op(resize) op(reserve) op(truncate) op(compact) op(detach) \
              op(drop)
#define ASSAY_OP_POINTER(name) decltype(&RealBytesOps::name) name;
#define ASSAY_OP_OF(name) .name = &Ops::name,
  ASSAY_BYTES_OPS(ASSAY_OP_POINTER)

  template <class Ops>
  static const BytesOps& of() {
    static constexpr BytesOps ops{ASSAY_BYTES_OPS(ASSAY_OP_OF)};
    return ops;
  }
#undef ASSAY_OP_OF
#undef ASSAY_OP_POINTER
#undef ASSAY_BYTES_OPS
};

}  // namespace assay::properties
