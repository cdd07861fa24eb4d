#include "scenarios.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "assay/backing/device.hpp"
#include "assay/backing/device_pool.hpp"
#include "assay/backing/device_virtual.hpp"
#include "assay/backing/managed.hpp"
#include "assay/backing/pinned.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/buffer/bytes.hpp"
#include "assay/buffer/unified_buffer.hpp"

namespace assay::sweep {
namespace {

std::byte pattern(std::size_t at, std::uint8_t seed) noexcept {
  return static_cast<std::byte>(at * 31 + at / 251 + seed);
}

std::vector<std::byte> pattern_of(std::size_t size, std::uint8_t seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern(i, seed);
  return bytes;
}

/// One block, and what must be read from it.
class Held {
 public:
  Held(World& world, Backing& backing, const Request& request)
      : world_(world), backing_(backing), request_(request) {
    const auto made = backing.allocate(request);
    if (!world.judge.good(made)) return;
    block_ = made.value();
    world.judge.require(is_aligned(block_.address, request.alignment), "a block is misaligned");
    world.judge.require(block_.capacity >= request.size, "a block is too small");
    if (request.init == Init::zero) {
      expected_.assign(request.size, std::byte{0});
      check("a zeroed block does not read zero");
    }
  }
  explicit operator bool() const noexcept { return static_cast<bool>(block_); }
  [[nodiscard]] std::size_t size() const noexcept { return request_.size; }
  [[nodiscard]] Block block() const noexcept { return block_; }

  void write(std::uint8_t seed) {
    if (!block_) return;
    expected_ = pattern_of(request_.size, seed);
    // Of a copy that failed nothing is known: it may have been half done.
    if (!world_.judge.good(backing_.copy_in(block_, 0, expected_))) expected_.clear();
    check("a block does not hold what was written");
  }
  void fill(std::byte value) {
    fill_unseen(value);
    check("a block does not hold what it was filled with");
  }
  void fill_unseen(std::byte value) {
    if (!block_) return;
    expected_.assign(request_.size, value);
    if (!world_.judge.good(backing_.fill(block_, 0, request_.size, value))) expected_.clear();
  }
  void resize(std::size_t size) {
    if (!block_) return;
    Request to = request_;
    to.size = size;
    to.init = Init::zero;
    const auto made = backing_.resize(block_, request_, to, MayMove::yes);
    if (world_.judge.good(made)) {
      block_ = made.value();
      if (!expected_.empty()) expected_.resize(size, std::byte{0});
      request_ = to;
    }
    check("a resize, or one that failed, changed a block");
  }
  void copy_from(Held& other, std::size_t size) {
    if (!block_ || !other.block_) return;
    if (expected_.size() >= size && other.expected_.size() >= size) {
      std::copy_n(other.expected_.begin(), size, expected_.begin());
    } else {
      expected_.clear();
    }
    const auto copied = backing_.copy_between(block_, 0, other.backing_, other.block_, 0, size);
    if (!world_.judge.good(copied)) expected_.clear();
    check("a block does not hold what was copied");
  }
  void check(const char* what) {
    if (!block_ || expected_.empty()) return;
    std::vector<std::byte> found(expected_.size());
    // A second try: one call fails, and reading must not hide what the first half did.
    const bool read = world_.judge.good(backing_.copy_out(block_, 0, found)) ||
                      world_.judge.good(backing_.copy_out(block_, 0, found));
    if (read) world_.judge.require(found == expected_, what);
  }
  /// Frees the block; a second free must be refused.
  void free() {
    check("a block lost its contents");
    free_unseen();
  }
  /// Frees it without a look, which would wait for its stream.
  void free_unseen() {
    if (!block_) return;
    backing_.deallocate(block_, request_);
    if (backing_.can(Capabilities::detects_bad_free)) {
      world_.judge.require(backing_.deallocate(block_, request_) == Freed::refused,
                           "a second free was not refused");
    }
    block_ = {};
  }

 private:
  World& world_;
  Backing& backing_;
  Request request_;
  Block block_{};
  std::vector<std::byte> expected_;
};

StreamRef ref(const World& world) noexcept {
  return {world.stream->handle()};
}

void blocks(World& world) {
  std::vector<Held> held;
  held.emplace_back(world, *world.leaf, Request{.size = 1000});
  held.emplace_back(world, *world.leaf, Request{.size = 70'000, .init = Init::zero});
  held.emplace_back(world, *world.leaf,
                    Request{.size = 300, .alignment = std::size_t{1} << 18, .init = Init::zero});
  held.emplace_back(world, *world.leaf,
                    Request{.size = 5000, .init = Init::zero, .stream = ref(world)});
  std::uint8_t seed = 1;
  for (Held& one : held) one.write(seed++);
  held[0].fill(std::byte{0x5a});
  held[3].fill(std::byte{0xa5});
  for (Held& one : held) one.free();
}

void zeroed(World& world) {
  for (const std::size_t size : std::initializer_list<std::size_t>{1, 600, 70'000}) {
    Held one(world, *world.leaf, {.size = size, .init = Init::zero});
    one.write(2);
    one.free();
  }
}

void growth(World& world) {
  Held one(world, *world.leaf, {.size = 40'000});
  one.write(3);
  one.resize(41'000);
  one.resize(500'000);
  one.resize(20'000);
  one.free();
}

void copies(World& world) {
  Held one(world, *world.leaf, {.size = 30'000});
  Held other(world, *world.leaf, {.size = 30'000, .stream = ref(world)});
  one.write(5);
  other.write(6);
  one.copy_from(other, 10'000);
  other.copy_from(one, 30'000);
  one.free();
  other.free();
}

void placement(World& world) {
  Held one(world, *world.leaf, {.size = 200'000});
  if (!one) return;
  one.write(7);
  const Location device{Location::Kind::device, world.leaf->info().device};
  const Location host{Location::Kind::host, 0};
  constexpr std::array advices = {Advice::set_read_mostly,        Advice::unset_read_mostly,
                                  Advice::set_preferred_location, Advice::unset_preferred_location,
                                  Advice::set_accessed_by,        Advice::unset_accessed_by};
  for (const Advice advice : advices) {
    const auto advised = world.leaf->advise(one.block(), 0, 100'000, advice, device);
    if (world.leaf->can(Capabilities::advise)) {
      (void)world.judge.good(advised);
    } else {
      world.judge.not_supported(advised, "advise");
    }
  }
  for (const auto& [where, stream] : {std::pair(device, StreamRef{}), std::pair(host, ref(world)),
                                      std::pair(device, ref(world))}) {
    const auto moved = world.leaf->prefetch(one.block(), 4096, 100'000, where, stream);
    if (world.leaf->can(Capabilities::prefetch)) {
      (void)world.judge.good(moved);
    } else {
      world.judge.not_supported(moved, "prefetch");
    }
  }
  one.free();
}

/// Pages that a block keeps its marks in, whatever its granularity: megabytes need not be written.
class Marks {
 public:
  Marks(World& world, Held& held) noexcept : world_(world), held_(held) {}
  void write(std::size_t offset) {
    if (!held_) return;
    const auto mark = pattern_of(size, static_cast<std::uint8_t>(offset >> 12));
    if (world_.judge.good(world_.leaf->copy_in(held_.block(), offset, mark))) at_.push_back(offset);
    check();
  }
  /// Of those that the block still has.
  void check() {
    std::erase_if(at_, [&](std::size_t at) { return at + size > held_.size(); });
    for (const std::size_t offset : at_) {
      std::vector<std::byte> found(size);
      const bool read = world_.judge.good(world_.leaf->copy_out(held_.block(), offset, found)) ||
                        world_.judge.good(world_.leaf->copy_out(held_.block(), offset, found));
      if (read) {
        world_.judge.require(found == pattern_of(size, static_cast<std::uint8_t>(offset >> 12)),
                             "a block that was resized lost its bytes");
      }
    }
  }

  static constexpr std::size_t size = 64;

 private:
  World& world_;
  Held& held_;
  std::vector<std::size_t> at_;
};

/// Growth within the reserve, beyond it, and back.
void pages(World& world) {
  const std::size_t unit = std::max<std::size_t>(world.leaf->info().granularity, 256);
  for (const StreamRef stream : {StreamRef{}, ref(world)}) {
    Held one(world, *world.leaf, {.size = unit, .reserve = 3 * unit, .stream = stream});
    Marks marks(world, one);
    marks.write(unit - Marks::size);
    one.resize(3 * unit);
    marks.check();
    if (one.size() == 3 * unit) marks.write(3 * unit - Marks::size);
    one.resize(4 * unit);
    marks.check();
    if (one.size() == 4 * unit) marks.write(4 * unit - Marks::size);
    one.resize(unit);
    marks.check();
    one.resize(2 * unit);
    marks.check();
    one.free();
  }
}

/// What was freed is used again, and goes back when it is asked for.
void trimming(World& world) {
  for (int round = 0; round < 2; ++round) {
    Held one(world, *world.leaf, {.size = 5000, .init = Init::zero});
    Held other(world, *world.leaf, {.size = 3000, .stream = ref(world)});
    one.write(30);
    other.write(31);
    one.free();
    const auto trimmed = world.leaf->trim(0);
    if (world.leaf->can(Capabilities::trim)) {
      (void)world.judge.good(trimmed);
    } else {
      world.judge.not_supported(trimmed, "trim");
    }
    other.free();
  }
}

/// A block that is filled on its stream and freed at once serves the next request.
void turns(World& world) {
  for (std::uint8_t round = 0; round < 3; ++round) {
    Held on_stream(world, *world.leaf, {.size = 6000, .init = Init::zero, .stream = ref(world)});
    on_stream.fill_unseen(std::byte{0x3c});
    on_stream.free_unseen();
    Held plain(world, *world.leaf, {.size = 6000});
    plain.write(round);
    plain.free();
  }
}

/// A leaf with a limit gives out that much, and not more.
void limited(World& world) {
  if (world.limit == 0) return;
  Held one(world, *world.leaf, {.size = world.limit / 2});
  const auto past = world.leaf->allocate({.size = world.limit});
  world.judge.require(!past, "the largest size was passed");
  one.free();
}

/// An account over the leaf is at the end what its failed frees still hold.
void settle(World& world, const Tenant& tenant) {
  const auto account = tenant.account();
  world.judge.require(account.charged == account.quarantined,
                      "a charge stayed without a block behind it");
}

void quota_over(World& world) {
  const auto tenant = Tenant::make(std::uint64_t{64} << 20);
  {
    const Ref<Backing> quota = Quota::make(tenant, world.leaf);
    Held one(world, *quota, {.size = 50'000, .init = Init::zero});
    Held other(world, *quota, {.size = 1});
    one.write(8);
    other.write(9);
    one.resize(200'000);
    const auto past = quota->allocate({.size = std::size_t{65} << 20});
    world.judge.require(!past && past.error().code == ErrorCode::quota_exceeded,
                        "the limit was passed");
    one.free();
    other.free();
  }
  settle(world, *tenant);
}

void pool_over(World& world) {
  const auto tenant = Tenant::make(std::uint64_t{64} << 20);
  {
    const Ref<Backing> pool = SlabPool::make(Quota::make(tenant, world.leaf));
    std::vector<Held> held;
    for (const std::size_t size :
         std::initializer_list<std::size_t>{40, 4000, 40, 100'000, 3'000'000, 70}) {
      held.emplace_back(world, *pool,
                        Request{.size = size, .init = size > 50 ? Init::zero : Init::undefined});
    }
    std::uint8_t seed = 10;
    for (Held& one : held) one.write(seed++);
    held[1].resize(9000);
    held[2].free();
    Held again(world, *pool, {.size = 40, .init = Init::zero});
    for (Held& one : held) one.free();
    again.free();
    (void)pool->trim(0).has_value();
  }
  settle(world, *tenant);
}

/// The first `size` bytes of the buffer, read twice if need be.
void expect_bytes(World& world, const UnifiedBuffer& buffer,
                  const std::vector<std::byte>& expected) {
  std::vector<std::byte> found(expected.size());
  const bool read =
      world.judge.good(buffer.read_at(0, found)) || world.judge.good(buffer.read_at(0, found));
  if (read) world.judge.require(found == expected, "a buffer lost its bytes");
}

void buffer_over(World& world) {
  const BufferOptions options{.backing = world.leaf, .stream = ref(world)};
  auto made = UnifiedBuffer::create_with_capacity(10'000, 20'000, options);
  if (!world.judge.good(made)) return;
  UnifiedBuffer buffer = std::move(made).value();
  auto expected = pattern_of(10'000, 20);
  if (!world.judge.good(buffer.write_at(0, expected))) return;
  expect_bytes(world, buffer, expected);
  for (const std::size_t size : {std::size_t{15'000}, std::size_t{300'000}, std::size_t{9000}}) {
    if (world.judge.good(buffer.resize(size))) expected.resize(size, std::byte{0});
    world.judge.require(buffer.size() == expected.size(), "a failed resize changed the size");
    expect_bytes(world, buffer, expected);
  }
}

void bytes_over(World& world) {
  const auto home = Home::make(world.leaf, {.wipe = Wipe::on_release});
  if (!home) return world.judge.wrong(describe(home.error()));
  const auto content = pattern_of(6000, 21);
  auto made = Bytes::from_span(content, *home.value());
  if (!world.judge.good(made)) return;
  Bytes value = std::move(made).value();
  const auto holds = [&](const Bytes& bytes, std::size_t from) {
    world.judge.require(
        std::ranges::equal(bytes.span(), std::span(content).subspan(from, bytes.len())),
        "a value lost its bytes");
  };
  if (auto copy = value.clone(); world.judge.good(copy)) holds(copy.value(), 0);
  auto right = value.split(2500);
  if (world.judge.good(right)) {
    holds(right.value(), 2500);
    if (auto copy = right.value().clone(); world.judge.good(copy)) holds(copy.value(), 2500);
  }
  holds(value, 0);
  const std::size_t before = value.len();
  if (world.judge.good(value.extend(content))) value.truncate(before);
  holds(value, 0);
}

constexpr std::array all_scenarios = {
    Scenario{"zeroed", false, zeroed},       Scenario{"blocks", false, blocks},
    Scenario{"growth", false, growth},       Scenario{"copies", false, copies},
    Scenario{"placement", false, placement}, Scenario{"quota", false, quota_over},
    Scenario{"pool", false, pool_over},      Scenario{"UnifiedBuffer", false, buffer_over},
    Scenario{"pages", false, pages},         Scenario{"trimming", false, trimming},
    Scenario{"turns", false, turns},         Scenario{"limited", false, limited},
    Scenario{"Bytes", true, bytes_over},
};

template <class T>
Result<Ref<Backing>> make_leaf(Ref<cuda::PrimaryContext> context) {
  ASSAY_TRY(Ref<T> leaf, T::make(std::move(context)));
  return Ref<Backing>(std::move(leaf));
}

Result<Ref<Backing>> make_host_managed(Ref<cuda::PrimaryContext> context) {
  ASSAY_TRY(Ref<Managed> leaf,
            Managed::make(std::move(context),
                          {.attach = Managed::Attach::host, .granularity = std::size_t{2} << 20}));
  return Ref<Backing>(std::move(leaf));
}

constexpr std::size_t pool_limit = std::size_t{64} << 20;  // more than any scenario needs

Result<Ref<Backing>> make_limited_pool(Ref<cuda::PrimaryContext> context) {
  ASSAY_TRY(Ref<DevicePool> leaf,
            DevicePool::make(std::move(context), {.max_size = pool_limit, .release_threshold = 0}));
  return Ref<Backing>(std::move(leaf));
}

Result<Ref<Backing>> make_small_pieces(Ref<cuda::PrimaryContext> context) {
  ASSAY_TRY(Ref<DeviceVirtual> leaf, DeviceVirtual::make(std::move(context), {.piece_max = 1}));
  return Ref<Backing>(std::move(leaf));
}

constexpr std::array all_leaves = {
    Leaf{"managed", make_leaf<Managed>},
    Leaf{"managed(attach=host,granularity=2MiB)", make_host_managed},
    Leaf{"pinned", make_leaf<Pinned>},
    Leaf{"device", make_leaf<Device>},
    Leaf{"device_pool", make_leaf<DevicePool>},
    Leaf{.name = "device_pool(max_size=64MiB,release_threshold=0B)",
         .make = make_limited_pool,
         .limit = pool_limit},
    Leaf{"device_virtual", make_leaf<DeviceVirtual>},
    Leaf{"device_virtual(piece=1B)", make_small_pieces},
};

}  // namespace

std::span<const Scenario> scenarios() noexcept {
  return all_scenarios;
}

std::span<const Leaf> leaves() noexcept {
  return all_leaves;
}

}  // namespace assay::sweep
