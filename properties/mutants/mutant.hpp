// Mutant: a backing broken in exactly one way, which one property must catch.
#pragma once

#include <cstring>
#include <unordered_map>

#include "assay/backing/heap.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::mutants {

/// Base of the mutants: right in everything until a subclass breaks one thing.
class Mutant : public Adaptor {
 public:
  Mutant(const SourceInfo& info, Ref<Backing> upstream) noexcept
      : Adaptor(info, std::move(upstream)) {}

 protected:
  static std::byte* bytes_of(Block block) noexcept {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(block.address));
  }
};

/// Remembers what the upstream gave for an address that is handed out, so that a mutant can give
/// back exactly that and is broken nowhere else.
class Given {
 public:
  struct Entry {
    Block block;
    Request request;
  };
  void put(std::uint64_t address, Block block, const Request& request) {
    entries_[address] = {block, request};
  }
  [[nodiscard]] bool has(std::uint64_t address) const { return entries_.contains(address); }
  Entry take(std::uint64_t address) {
    const auto node = entries_.extract(address);
    return node.empty() ? Entry{} : node.mapped();
  }

 private:
  std::unordered_map<std::uint64_t, Entry> entries_;
};

template <class M>
Result<Ref<Backing>> make_mutant(const SubjectContext& context) {
  Ref<Backing> upstream = context.upstream ? context.upstream : Ref<Backing>(Heap::make());
  SourceInfo info = upstream->info();
  info.id = M::id;
  info.capabilities = info.capabilities.bits() | Capabilities::upstream;
  return Ref<Backing>(Ref<M>::adopt(new M(info, std::move(upstream))));
}

}  // namespace assay::harness::mutants

/// Registers the mutant `type`, caught by `property`, under the function `name`.
#define ASSAY_MUTANT(name, type, property, text)                                         \
  namespace assay::harness::subject_list {                                               \
  const Subject& name() {                                                                \
    static constexpr Subject subject{                                                    \
        .id = ::assay::harness::mutants::type::id,                                       \
        .origin = Origin::mutant,                                                        \
        .summary = text,                                                                 \
        .make = ::assay::harness::mutants::make_mutant<::assay::harness::mutants::type>, \
        .killed_by = property};                                                          \
    return subject;                                                                      \
  }                                                                                      \
  }
