// The operations under test. A mutant derives from RealBytesOps and breaks one of them.
#pragma once

#include "assay/buffer/bytes.hpp"
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
  static Result<std::span<std::byte>> write(Bytes& value) { return value.write(); }
  static Result<void> extend(Bytes& value, std::span<const std::byte> bytes, CheckingBacking&) {
    return value.extend(bytes);
  }
  static Result<void> resize(Bytes& value, std::size_t size) { return value.resize(size); }
  static void truncate(Bytes& value, std::size_t size) { value.truncate(size); }
  static void drop(Bytes& value, CheckingBacking&) { value = Bytes(); }
};

}  // namespace assay::properties
