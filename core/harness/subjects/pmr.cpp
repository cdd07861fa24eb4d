// std::pmr pools as backings, over the context's upstream or new and delete.
#include <memory_resource>
#include <new>

#include "assay/base/live_count.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {
namespace {

/// A memory_resource over a Backing, so that the harness sees what a pool asks for and frees.
class UpstreamResource final : public std::pmr::memory_resource {
 public:
  explicit UpstreamResource(Ref<Backing> upstream) : upstream_(std::move(upstream)) {}

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    const auto block = upstream_->allocate({.size = size, .alignment = alignment});
    if (!block) throw std::bad_alloc();
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(block.value().address));
  }
  void do_deallocate(void* memory, std::size_t size, std::size_t alignment) override {
    const Request request{.size = size, .alignment = alignment};
    upstream_->deallocate({reinterpret_cast<std::uintptr_t>(memory), upstream_->footprint(request)},
                          request);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  Ref<Backing> upstream_;
};

template <class Pool>
class PmrBacking final : public Backing {
 public:
  PmrBacking(const SourceInfo& info, Ref<Backing> upstream)
      : Backing(info),
        resource_(std::move(upstream)),
        pool_(has_upstream(info) ? static_cast<std::pmr::memory_resource*>(&resource_)
                                 : std::pmr::new_delete_resource()) {}

 private:
  static bool has_upstream(const SourceInfo& info) {
    return info.capabilities.has(Capabilities::upstream);
  }
  Block do_allocate(const Request& request, Error& error) noexcept override {
    try {
      void* const memory = pool_.allocate(request.size, request.alignment);
      if (request.init == Init::zero) __builtin_memset(memory, 0, request.size);
      live_.add(request.size);
      return {reinterpret_cast<std::uintptr_t>(memory), request.size};
    } catch (const std::bad_alloc&) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
      return {};
    }
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    live_.remove(release.request.size);
    pool_.deallocate(reinterpret_cast<void*>(static_cast<std::uintptr_t>(block.address)),
                     release.request.size, release.request.alignment);
    return Freed::now;
  }
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override {
    return request.size;
  }
  [[nodiscard]] Usage do_usage() const noexcept override {
    const auto total = live_.total();
    return {total.blocks, total.bytes, total.bytes};
  }

  UpstreamResource resource_;
  Pool pool_;
  LiveCount live_;
};

template <class Pool>
Result<Ref<Backing>> make_pool(const char* id, std::uint32_t capabilities,
                               const SubjectContext& context) {
  const std::uint32_t over = context.upstream ? Capabilities::upstream : 0;
  const SourceInfo info{.id = id,
                        .capabilities = Capabilities::host_access | capabilities | over,
                        .granularity = 1,
                        .natural_alignment = alignof(std::max_align_t)};
  return Ref<Backing>(Ref<PmrBacking<Pool>>::adopt(new PmrBacking<Pool>(info, context.upstream)));
}

}  // namespace

const Subject& pmr_unsynchronized() {
  static constexpr Subject subject{.id = "pmr_unsynchronized",
                                   .origin = Origin::system,
                                   .summary = "std::pmr::unsynchronized_pool_resource",
                                   .make = [](const SubjectContext& context) {
                                     return make_pool<std::pmr::unsynchronized_pool_resource>(
                                         "pmr_unsynchronized", 0, context);
                                   }};
  return subject;
}

const Subject& pmr_synchronized() {
  static constexpr Subject subject{.id = "pmr_synchronized",
                                   .origin = Origin::system,
                                   .summary = "std::pmr::synchronized_pool_resource",
                                   .make = [](const SubjectContext& context) {
                                     return make_pool<std::pmr::synchronized_pool_resource>(
                                         "pmr_synchronized", Capabilities::thread_safe, context);
                                   }};
  return subject;
}

}  // namespace assay::harness::subject_list
