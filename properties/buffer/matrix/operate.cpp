#include "operate.hpp"

#include <algorithm>
#include <cstring>

#include "assay/buffer/cbor.hpp"
#include "assay/buffer/format.hpp"

namespace assay::matrix {
namespace {

Error mismatch(const char* what) {
  return Error::make(ErrorCode::parse, what);  // no operation of Bytes gives this code
}

std::vector<std::byte> slice(const std::vector<std::byte>& all, std::size_t start,
                             std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(start),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// A fact that is not as it was expected is told as an error.
Result<void> same(bool equal, const char* what) {
  if (!equal) return mismatch(what);
  return {};
}

Result<void> cut(World& world, SplitPolicy policy) {
  const std::size_t at = std::min(split_at, world.content.size());
  ASSAY_TRY(Bytes right, world.value.split(at, policy));
  world.others.push_back({std::move(right), slice(world.content, at, world.content.size())});
  world.content.resize(at);
  return {};
}

Result<void> view(World& world) {
  const bool empty = world.content.empty();
  const std::size_t start = empty ? 0 : view_start;
  const std::size_t end = empty ? 0 : view_end;
  ASSAY_TRY(Bytes window, world.value.view(start, end));
  ASSAY_TRY_VOID(same(window.is_resident() == world.value.is_resident(), "view read its parent"));
  world.others.push_back({std::move(window), slice(world.content, start, end)});
  return {};
}

Result<void> copy_out(World& world) {
  const std::size_t size = std::min(copied_size, world.content.size());
  const std::size_t start = size == 0 ? 0 : copied_from;
  std::vector<std::byte> to(size);
  ASSAY_TRY_VOID(world.value.copy_into(to, start));
  return same(to == slice(world.content, start, start + size), "copied bytes");
}

/// One CBOR byte string, into memory of the caller.
Result<void> serialise(World& world) {
  const CborHead head(world.content.size());
  std::vector<std::byte> expected(head.span().begin(), head.span().end());
  expected.insert(expected.end(), world.content.begin(), world.content.end());
  std::vector<std::byte> to(cbor_size(world.content.size()));
  ASSAY_TRY(const std::size_t size, encode_cbor(world.value, to));
  return same(size == to.size() && to == expected, "encoding");
}

Result<void> write(World& world, Policy policy) {
  const Writer writer = policy == Policy::no_copy ? Writer::no_copy() : Writer{};
  ASSAY_TRY(const std::span<std::byte> bytes, world.value.write(writer));
  ASSAY_TRY_VOID(same(std::ranges::equal(bytes, world.content), "bytes to be written"));
  if (!bytes.empty()) bytes[3] = world.content[3] = std::byte{0xfd};
  return {};
}

Result<void> look(World& world, Policy policy) {
  const Reader reader = policy == Policy::no_copy ? Reader::no_copy() : Reader{};
  ASSAY_TRY(const std::span<const std::byte> bytes, world.value.read(reader));
  return same(std::ranges::equal(bytes, world.content), "read bytes");
}

Result<void> give_vector(World& world) {
  ASSAY_TRY(const auto elements, world.value.try_into_vec<std::uint32_t>());
  const auto bytes = std::as_bytes(std::span(elements));
  ASSAY_TRY_VOID(same(std::ranges::equal(bytes, world.content), "bytes of the vector"));
  world.content.clear();
  return {};
}

Result<void> give_array(World& world) {
  ASSAY_TRY(const auto elements, world.value.try_into_owned<std::uint32_t>());
  const std::size_t size = elements.get_deleter().size() * sizeof(std::uint32_t);
  const bool equal = size == world.content.size() &&
                     (size == 0 || std::memcmp(elements.get(), world.content.data(), size) == 0);
  ASSAY_TRY_VOID(same(equal, "bytes of the array"));
  world.content.clear();
  return {};
}

Result<void> compare(World& world, const Bytes& twin) {
  ASSAY_TRY(const bool equal, world.value.equals(twin));
  return same(equal, "equals");
}

Result<void> hash(World& world, const Bytes& twin) {
  ASSAY_TRY(const std::size_t hash, world.value.hash());
  return same(hash == std::hash<Bytes>()(twin), "hash");
}

Result<void> print(const World& world, const Bytes& twin, Fault fault) {
  const std::string text = fmt::format("{}", world.value);
  if (!world.value.is_resident()) {
    return same(text == "Bytes { data: <not read>, len: 96 }", "print");
  }
  // The bytes of a file that was cut short may show as zeros, but something is printed.
  if (fault == Fault::truncated) return same(text.ends_with("len: 96 }"), "print");
  return same(text == fmt::format("{}", twin), "print");
}

Result<void> clone(World& world) {
  ASSAY_TRY(Bytes other, world.value.clone());
  const bool own_copy = world.value.is_exclusive() && !world.value.is_empty();
  ASSAY_TRY_VOID(same(!own_copy || other.capacity() == other.len(), "capacity of a clone"));
  world.others.push_back({std::move(other), world.content});
  return {};
}

Result<void> extend(World& world, std::span<const std::byte> more) {
  ASSAY_TRY_VOID(world.value.extend(more));
  world.content.insert(world.content.end(), more.begin(), more.end());
  return {};
}

Result<void> resize(World& world) {
  const std::size_t len = world.content.size() + growing;
  ASSAY_TRY_VOID(world.value.resize(len));
  world.content.resize(len);
  return {};
}

}  // namespace

Prepared prepare(World& world, Operation operation, Value& before) {
  Prepared prepared{.twin = Bytes::from_span(world.content).value(), .right = {}, .more = {}};
  if (operation == Operation::extend_fits) {
    EXPECT_TRUE(world.value.reserve(spare).has_value());
    prepared.more = test::counting(fitting, 9);
    before = with_block_of_its_own(before);
    before.retained = whatever;
  }
  if (operation == Operation::extend_grows) prepared.more = test::counting(growing, 9);
  if (operation == Operation::join) {
    prepared.right = world.value.split(std::min(split_at, before.len)).value();
    // Unread parts have units of their own, and so has what they are joined to.
    before.alone = before.alone || !before.resident;
  }
  return prepared;
}

Result<void> operate(World& world, Prepared& prepared, const Cell& cell) {
  Bytes& value = world.value;
  switch (cell.operation) {
    case Operation::make: return world.make();
    case Operation::len: return same(value.len() == world.content.size(), "len");
    case Operation::capacity: return same(value.capacity() >= value.len(), "capacity");
    case Operation::is_empty: return same(value.is_empty() == world.content.empty(), "is_empty");
    case Operation::align:
    case Operation::property:
    case Operation::retained_bytes:  // compared with the rules after every operation
      return {};
    case Operation::read: return look(world, cell.policy);
    case Operation::write: return write(world, cell.policy);
    case Operation::view: return view(world);
    case Operation::split_shared: return cut(world, SplitPolicy::shared);
    case Operation::split_owned: return cut(world, SplitPolicy::owned);
    case Operation::share: return value.shared();
    case Operation::clone: return clone(world);
    case Operation::extend_0: return value.extend({});
    case Operation::extend_fits:
    case Operation::extend_grows: return extend(world, prepared.more);
    case Operation::reserve: return value.reserve(growing);
    case Operation::resize: return resize(world);
    case Operation::truncate:
      world.content.resize(std::min(truncated_to, world.content.size()));
      value.truncate(world.content.size());
      return {};
    case Operation::compact: return value.compact();
    case Operation::try_into_vec: return give_vector(world);
    case Operation::try_into_owned: return give_array(world);
    case Operation::equal: return compare(world, prepared.twin);
    case Operation::hash: return hash(world, prepared.twin);
    case Operation::print: return print(world, prepared.twin, cell.fault);
    case Operation::copy_out: return copy_out(world);
    case Operation::serialise: return serialise(world);
    case Operation::join: return value.join(std::move(prepared.right));
  }
  return {};
}

}  // namespace assay::matrix
