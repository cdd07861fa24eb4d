// Pools: attributes, high marks and access.
#include "contract/groups.hpp"
#include "contract/pool.hpp"

namespace assay::conformance {
namespace {

using enum Source;
using abi::AccessFlags;
using abi::LocationType;
using abi::MemPoolAttribute;

constexpr const char* undefined = "the use of a destroyed pool is undefined";

abi::MemPool destroyed(Run& run) {
  const abi::MemPool pool = make_pool(run);
  run.must(run.cu.cuMemPoolDestroy(pool), "cuMemPoolDestroy");
  return pool;
}

void fresh_attributes(Run& run) {
  const abi::MemPool pool = make_pool(run);
  run.holds("the three kinds of reuse are on",
            pool_value(run, pool, MemPoolAttribute::reuse_follow_event_dependencies) == 1 &&
                pool_value(run, pool, MemPoolAttribute::reuse_allow_opportunistic) == 1 &&
                pool_value(run, pool, MemPoolAttribute::reuse_allow_internal_dependencies) == 1);
  run.value("release threshold",
            static_cast<std::int64_t>(pool_value(run, pool, MemPoolAttribute::release_threshold)));
  run.value("used",
            static_cast<std::int64_t>(pool_value(run, pool, MemPoolAttribute::used_mem_current)));
  run.value("used at most",
            static_cast<std::int64_t>(pool_value(run, pool, MemPoolAttribute::used_mem_high)));
}

void set_attributes(Run& run) {
  const abi::MemPool pool = make_pool(run);
  std::uint64_t threshold = (std::uint64_t{1} << 40) + 4096;
  run.code("set the threshold",
           run.cu.cuMemPoolSetAttribute(pool, MemPoolAttribute::release_threshold, &threshold));
  run.holds("it reads back whole",
            pool_value(run, pool, MemPoolAttribute::release_threshold) == threshold);
  for (const auto& [step, which] :
       {std::pair{"follow events", MemPoolAttribute::reuse_follow_event_dependencies},
        std::pair{"opportunistic", MemPoolAttribute::reuse_allow_opportunistic},
        std::pair{"internal", MemPoolAttribute::reuse_allow_internal_dependencies}}) {
    int off = 0;
    int seen[2] = {7, 7};
    run.must(run.cu.cuMemPoolSetAttribute(pool, which, &off), "cuMemPoolSetAttribute");
    run.must(run.cu.cuMemPoolGetAttribute(pool, which, seen), "cuMemPoolGetAttribute");
    run.holds(step, seen[0] == 0 && seen[1] == 7);
  }
}

Status set_to(Run& run, MemPoolAttribute which, std::uint64_t value) {
  return run.cu.cuMemPoolSetAttribute(make_pool(run), which, &value);
}

void high_marks(Run& run) {
  const abi::Stream stream = run.stream();
  const abi::MemPool pool = make_pool(run);
  const DevicePointer address = pooled_from(run, MiB, pool, stream);
  synchronize(run, stream);
  free_async(run, address, stream);
  synchronize(run, stream);
  run.holds("the mark remembers",
            pool_value(run, pool, MemPoolAttribute::used_mem_high) >= MiB &&
                pool_value(run, pool, MemPoolAttribute::reserved_mem_high) >= MiB);
  std::uint64_t zero = 0;
  run.code("reset of used",
           run.cu.cuMemPoolSetAttribute(pool, MemPoolAttribute::used_mem_high, &zero));
  run.code("reset of reserved",
           run.cu.cuMemPoolSetAttribute(pool, MemPoolAttribute::reserved_mem_high, &zero));
  run.holds("then it is what there is",
            pool_value(run, pool, MemPoolAttribute::used_mem_high) ==
                    pool_value(run, pool, MemPoolAttribute::used_mem_current) &&
                pool_value(run, pool, MemPoolAttribute::reserved_mem_high) ==
                    pool_value(run, pool, MemPoolAttribute::reserved_mem_current));
}

Tests attributes() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      {"pool.attributes_fresh",
       "a fresh pool reuses in every way, keeps nothing and has given nothing",
       pools(),
       {holds("the three kinds of reuse are on", hdr), value("release threshold", {0}, hdr),
        value("used", {0}, hdr), value("used at most", {0}, hdr)},
       fresh_attributes},
      {"pool.attributes_set",
       "the threshold has 64 bits, the reuse flags are ints",
       pools(),
       {succeeds("set the threshold", hdr), holds("it reads back whole", hdr),
        holds("follow events", hdr), holds("opportunistic", hdr), holds("internal", hdr)},
       set_attributes},
      {"pool.high_marks",
       "a high mark remembers until it is reset",
       pools(),
       {holds("the mark remembers", hdr), succeeds("reset of used", hdr),
        succeeds("reset of reserved", hdr), holds("then it is what there is", hdr)},
       high_marks},
      answers(
          "pool.attribute_unknown", "an attribute that there is not cannot be read", refused, lup,
          [](Run& run) {
            std::uint64_t value = 0;
            return run.cu.cuMemPoolGetAttribute(make_pool(run), static_cast<MemPoolAttribute>(99),
                                                &value);
          },
          pools()),
      answers(
          "pool.attribute_unknown_set", "nor set", refused, lup,
          [](Run& run) { return set_to(run, static_cast<MemPoolAttribute>(99), 0); }, pools()),
      answers(
          "pool.used_high_nonzero", "a mark is reset to 0 alone", refused, hdr,
          [](Run& run) { return set_to(run, MemPoolAttribute::used_mem_high, 4096); }, pools()),
      answers(
          "pool.reserved_high_nonzero", "each of them", refused, hdr,
          [](Run& run) { return set_to(run, MemPoolAttribute::reserved_mem_high, 1); }, pools()),
      answers(
          "pool.used_current_set", "what is in use is no setting", refused, hdr,
          [](Run& run) { return set_to(run, MemPoolAttribute::used_mem_current, 0); }, pools()),
      answers(
          "pool.reserved_current_set", "nor what is reserved", refused, hdr,
          [](Run& run) { return set_to(run, MemPoolAttribute::reserved_mem_current, 0); }, pools()),
  };
}

Tests handles() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  return {
      answers(
          "pool.attribute_null_out", "an attribute is written somewhere", refused, hdr,
          [](Run& run) {
            return run.cu.cuMemPoolGetAttribute(make_pool(run), MemPoolAttribute::used_mem_current,
                                                nullptr);
          },
          pools() + null_out_pointer()),
      answers(
          "pool.attribute_null_in", "and read from somewhere", refused, hdr,
          [](Run& run) {
            return run.cu.cuMemPoolSetAttribute(make_pool(run), MemPoolAttribute::release_threshold,
                                                nullptr);
          },
          pools() + model_only("a driver may read a null pointer")),
      answers(
          "pool.attribute_null_pool", "of a pool", refused, hdr,
          [](Run& run) {
            std::uint64_t value = 0;
            return run.cu.cuMemPoolGetAttribute(nullptr, MemPoolAttribute::used_mem_current,
                                                &value);
          },
          pools()),
      answers(
          "pool.attribute_dead_get", "that is not destroyed", refused, hdr,
          [](Run& run) {
            std::uint64_t value = 0;
            return run.cu.cuMemPoolGetAttribute(destroyed(run), MemPoolAttribute::used_mem_current,
                                                &value);
          },
          pools() + model_only(undefined)),
      answers(
          "pool.attribute_dead_set", "neither for a setting", refused, hdr,
          [](Run& run) {
            std::uint64_t value = 0;
            return run.cu.cuMemPoolSetAttribute(destroyed(run), MemPoolAttribute::release_threshold,
                                                &value);
          },
          pools() + model_only(undefined)),
  };
}

Status grant(Run& run, abi::Location where, AccessFlags flags) {
  const abi::AccessDesc access{where, flags};
  return run.cu.cuMemPoolSetAccess(make_pool(run), &access, 1);
}

void own_access(Run& run) {
  const abi::MemPool pool = make_pool(run);
  abi::Location self{LocationType::device, 0};
  AccessFlags flags = AccessFlags::none;
  run.code("cuMemPoolGetAccess", run.cu.cuMemPoolGetAccess(&flags, pool, &self));
  run.holds("the pool's device reads and writes", flags == AccessFlags::read_write);
  const abi::AccessDesc same{self, AccessFlags::read_write};
  run.code("to grant what there is", run.cu.cuMemPoolSetAccess(pool, &same, 1));
}

void others_access(Run& run) {
  int count = 0;
  run.must(run.cu.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count < 2) run.skip("needs two devices");
  const abi::MemPool pool = make_pool(run);
  abi::Location other{LocationType::device, 1};
  AccessFlags flags = AccessFlags::read_write;
  const auto seen = [&] {
    run.must(run.cu.cuMemPoolGetAccess(&flags, pool, &other), "cuMemPoolGetAccess");
    return flags;
  };
  run.holds("another device has none at first", seen() == AccessFlags::none);
  const abi::AccessDesc granted{other, AccessFlags::read_write};
  run.code("grant", run.cu.cuMemPoolSetAccess(pool, &granted, 1));
  run.holds("then it has", seen() == AccessFlags::read_write);
  const abi::AccessDesc revoked{other, AccessFlags::none};
  run.code("revoke", run.cu.cuMemPoolSetAccess(pool, &revoked, 1));
  run.holds("and then it has none", seen() == AccessFlags::none);
}

Tests access() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  constexpr AccessFlags all = AccessFlags::read_write;
  return {
      {"pool.access_own",
       "a pool's device reads and writes it",
       pools(),
       {succeeds("cuMemPoolGetAccess", hdr), holds("the pool's device reads and writes", hdr),
        succeeds("to grant what there is", hip)},
       own_access},
      {"pool.access_others",
       "another device does where it was granted",
       pools() + model_only("which device reaches which is the board's affair"),
       {holds("another device has none at first", hdr), succeeds("grant", hdr),
        holds("then it has", hdr), succeeds("revoke", hdr), holds("and then it has none", hdr)},
       others_access},
      answers(
          "pool.access_revoke_own", "the access of the pool's device stays", {invalid_device}, hip,
          [](Run& run) { return grant(run, {LocationType::device, 0}, AccessFlags::none); },
          pools()),
      answers(
          "pool.access_bad_device", "access is of a device that is there", {invalid_device}, hip,
          [](Run& run) { return grant(run, {LocationType::device, 99}, all); }, pools()),
      answers(
          "pool.access_location", "of a location of a known type", refused, hip,
          [](Run& run) { return grant(run, {LocationType::none, 0}, all); }, pools()),
      answers(
          "pool.access_flags", "and is none, read or both", refused, unsure,
          [](Run& run) {
            return grant(run, {LocationType::device, 0}, static_cast<AccessFlags>(0x55));
          },
          pools()),
      answers(
          "pool.access_count", "there are not more descriptors than devices", refused, hip,
          [](Run& run) {
            const std::vector<abi::AccessDesc> many(65, {{LocationType::device, 0}, all});
            return run.cu.cuMemPoolSetAccess(make_pool(run), many.data(), many.size());
          },
          pools()),
  };
}

Tests access_refusals() {
  const auto refused = std::vector<std::int64_t>{invalid_value};
  constexpr AccessFlags all = AccessFlags::read_write;
  return {
      answers(
          "pool.access_null_pool", "access is to a pool", refused, hip,
          [](Run& run) {
            const abi::AccessDesc own{{LocationType::device, 0}, all};
            return run.cu.cuMemPoolSetAccess(nullptr, &own, 1);
          },
          pools()),
      answers(
          "pool.access_null_descriptors", "and is described", refused, hdr,
          [](Run& run) { return run.cu.cuMemPoolSetAccess(make_pool(run), nullptr, 1); },
          pools() + model_only("a driver may read a null pointer")),
      answers(
          "pool.access_of_bad_device", "the access of a device that is not there",
          {invalid_device, invalid_value}, unsure,
          [](Run& run) {
            AccessFlags flags{};
            abi::Location where{LocationType::device, 99};
            return run.cu.cuMemPoolGetAccess(&flags, make_pool(run), &where);
          },
          pools()),
      answers(
          "pool.access_null_out", "access is written somewhere", refused, hdr,
          [](Run& run) {
            abi::Location where{LocationType::device, 0};
            return run.cu.cuMemPoolGetAccess(nullptr, make_pool(run), &where);
          },
          pools() + null_out_pointer()),
      answers(
          "pool.access_null_location", "for a location", refused, hdr,
          [](Run& run) {
            AccessFlags flags{};
            return run.cu.cuMemPoolGetAccess(&flags, make_pool(run), nullptr);
          },
          pools() + model_only("a driver may read a null pointer")),
      answers(
          "pool.access_dead", "of a pool that is not destroyed", refused, hdr,
          [](Run& run) {
            AccessFlags flags{};
            abi::Location where{LocationType::device, 0};
            return run.cu.cuMemPoolGetAccess(&flags, destroyed(run), &where);
          },
          pools() + model_only(undefined)),
  };
}

}  // namespace

Tests pool_attribute_tests() {
  Tests tests = attributes();
  for (Test& test : handles()) tests.push_back(std::move(test));
  for (Test& test : access()) tests.push_back(std::move(test));
  for (Test& test : access_refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
