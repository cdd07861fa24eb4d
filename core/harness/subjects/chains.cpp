// Adaptors that must not change what their upstream promises: over heap, unless told otherwise.
#include "assay/backing/fault.hpp"
#include "assay/backing/heap.hpp"
#include "assay/backing/quota.hpp"
#include "assay/backing/slab_pool.hpp"
#include "assay/backing/statistics.hpp"
#include "assay/backing/tracing.hpp"
#include "assay/backing/virtual_memory.hpp"
#include "assay/harness/subject.hpp"

namespace assay::harness::subject_list {
namespace {

Ref<Backing> upstream_of(const SubjectContext& context) {
  return context.upstream ? context.upstream : Ref<Backing>(Heap::make());
}

}  // namespace

const Subject& quota() {
  static constexpr Subject subject{
      .id = "quota",
      .origin = Origin::assay,
      .summary = "an unlimited tenant's account over heap",
      .make = [](const SubjectContext& context) {
        return Result<Ref<Backing>>(Quota::make(Tenant::make(), upstream_of(context)));
      }};
  return subject;
}

const Subject& statistics() {
  static constexpr Subject subject{
      .id = "statistics",
      .origin = Origin::assay,
      .summary = "striped counters over heap",
      .make = [](const SubjectContext& context) {
        return Result<Ref<Backing>>(Statistics::make(upstream_of(context)));
      }};
  return subject;
}

const Subject& tracing() {
  static constexpr Subject subject{
      .id = "tracing",
      .origin = Origin::assay,
      .summary = "a recorder over heap",
      .make = [](const SubjectContext& context) {
        return Result<Ref<Backing>>(Tracing::make(upstream_of(context)));
      }};
  return subject;
}

const Subject& fault() {
  static constexpr Subject subject{.id = "fault",
                                   .origin = Origin::assay,
                                   .summary = "fault injection over heap, with no fault planned",
                                   .make = [](const SubjectContext& context) {
                                     return Result<Ref<Backing>>(Fault::make(upstream_of(context)));
                                   }};
  return subject;
}

const Subject& tenant_pool() {
  static constexpr Subject subject{
      .id = "tenant_pool",
      .origin = Origin::assay,
      .summary = "slab_pool(quota(virtual)): a tenant charged per chunk",
      .make = [](const SubjectContext& context) {
        Ref<Backing> leaf =
            context.upstream ? context.upstream : Ref<Backing>(VirtualMemory::make());
        return Result<Ref<Backing>>(SlabPool::make(Quota::make(Tenant::make(), std::move(leaf))));
      }};
  return subject;
}

}  // namespace assay::harness::subject_list
