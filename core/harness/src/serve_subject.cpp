// The in-process child: a subject's Backing behind the operations table, over a checking backing.
#include <cerrno>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "../child/executor.hpp"
#include "assay/backing/heap.hpp"
#include "assay/cuda/context.hpp"
#include "assay/harness/checked_backing.hpp"
#include "assay/harness/child_server.hpp"

namespace assay::harness {
namespace {

struct Served {
  const Subject* subject = nullptr;
  Ref<CheckedBacking> checked;
  Ref<Backing> backing;
};

Block block_of(const assay_block& block) noexcept {
  return {block.address, static_cast<std::size_t>(block.capacity)};
}

Request request_of(const assay_request& request) noexcept {
  return {.size = request.size,
          .reserve = request.reserve,
          .alignment = request.alignment,
          .init = request.init == 0 ? Init::undefined : Init::zero};
}

std::uint32_t code_of(const Error& error) noexcept {
  return static_cast<std::uint32_t>(error.code);
}

Backing& backing_of(void* self) noexcept {
  return *static_cast<Served*>(self)->backing;
}

std::uint32_t allocate(void* self, const assay_request* request, assay_block* block) noexcept {
  const auto made = backing_of(self).allocate(request_of(*request));
  if (!made) return code_of(made.error());
  *block = {made.value().address, made.value().capacity};
  return 0;
}

std::uint32_t deallocate(void* self, const assay_block* block,
                         const assay_request* request) noexcept {
  const Freed freed = backing_of(self).deallocate(block_of(*block), request_of(*request));
  return did_not_free(freed) ? static_cast<std::uint32_t>(ErrorCode::io) : 0;
}

std::uint32_t resize(void* self, const assay_block* block, const assay_request* from,
                     const assay_request* to, std::uint32_t may_move,
                     assay_block* resized) noexcept {
  const auto made = backing_of(self).resize(block_of(*block), request_of(*from), request_of(*to),
                                            may_move == 0 ? MayMove::no : MayMove::yes);
  if (!made) return code_of(made.error());
  *resized = {made.value().address, made.value().capacity};
  return 0;
}

void usage(void* self, assay_usage* into) noexcept {
  const Usage now = backing_of(self).usage();
  *into = {now.live_blocks, now.live_bytes, now.reserved_bytes};
}

std::uint32_t read(void* self, const assay_block* block, std::uint64_t offset, void* to,
                   std::uint64_t size) noexcept {
  const auto copied = backing_of(self).copy_out(
      block_of(*block), offset, {static_cast<std::byte*>(to), static_cast<std::size_t>(size)});
  return copied ? 0 : code_of(copied.error());
}

std::uint32_t write(void* self, const assay_block* block, std::uint64_t offset, const void* from,
                    std::uint64_t size) noexcept {
  const auto copied = backing_of(self).copy_in(
      block_of(*block), offset,
      {static_cast<const std::byte*>(from), static_cast<std::size_t>(size)});
  return copied ? 0 : code_of(copied.error());
}

void destroy(void* self) noexcept {
  static_cast<Served*>(self)->backing = Ref<Backing>();
}

/// Makes the subject over a fresh checking backing.
Result<void> make(Served& served, std::uint64_t limit_bytes) {
  Ref<Backing> leaf;
  if (served.subject->leaf == nullptr) {
    leaf = Heap::make();
  } else {
    ASSAY_TRY(leaf, served.subject->leaf());
  }
  ASSAY_TRY(served.checked, CheckedBacking::make(std::move(leaf), limit_bytes));
  ASSAY_TRY(served.backing, served.subject->make({.upstream = Ref<Backing>(served.checked)}));
  return {};
}

void tell_failure(const Error& error, ChildFacts& facts) {
  facts.make_error = code_of(error);
  std::strncpy(facts.why_unmade, describe(error).c_str(), sizeof facts.why_unmade - 1);
}

void describe_here(Served& served, ChildFacts& facts) {
  facts.proven = 1;
  facts.instrumented = built_with_sanitizers() ? 1 : 0;
  facts.sized_free = 1;
  std::strncpy(facts.sized_by, "every free carries its request", sizeof facts.sized_by - 1);
  if (const auto made = make(served, 0); !made) {
    return tell_failure(made.error(), facts);
  }
  if (served.subject->needs_driver) {
    facts.driver = 1;
    facts.limits_driver = cuda::Driver::instance().value()->model() != nullptr ? 1 : 0;
  }
  facts.capabilities = served.backing->info().capabilities.bits();
  facts.granularity = served.backing->info().granularity;
  // Asked by experiment: an adaptor may have the capability and an upstream of its own choice.
  const Request probe{.size = 64};
  if (const auto block = served.backing->allocate(probe)) {
    facts.takes_upstream = served.checked->counts().allocations > 0 ? 1 : 0;
    served.backing->deallocate(block.value(), probe);
  }
  served.backing = Ref<Backing>();
  served.checked = Ref<CheckedBacking>();
}

void describe(void* self, SharedCase& shared) noexcept {
  auto& served = *static_cast<Served*>(self);
  if (!served.subject->needs_driver) return describe_here(served, shared.facts);
  // A process that has called the driver cannot fork users of it: the cases must find it untouched.
  const pid_t child = ::fork();
  if (child == 0) {
    describe_here(served, shared.facts);
    ::_exit(0);
  }
  int status = -1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0 && shared.facts.make_error == 0) {
    tell_failure(Error::make(ErrorCode::driver_error, "make in a process of its own",
                             served.subject->id.data()),
                 shared.facts);
  }
}

std::uint32_t open(void* self, SharedCase& shared, assay_ops& ops) noexcept {
  auto& served = *static_cast<Served*>(self);
  if (const auto made = make(served, shared.settings.upstream_limit); !made) {
    return code_of(made.error());
  }
  if (shared.settings.driver_capacity != 0) {
    const auto driver = cuda::Driver::instance();
    if (!driver || driver.value()->model() == nullptr) return code_of({ErrorCode::not_supported});
    driver.value()->model()->set_capacity(shared.settings.driver_capacity);
    driver.value()->model()->set_host_capacity(shared.settings.driver_capacity);
  }
  served.checked->set_step_source(&shared.step);
  ops.self = self;
  ops.allocate = allocate;
  ops.deallocate = deallocate;
  ops.deallocate_sized = deallocate;
  ops.resize = resize;
  ops.usage = usage;
  ops.destroy = destroy;
  if (!served.backing->can(Capabilities::host_access)) {
    ops.read = read;
    ops.write = write;
  }
  return 0;
}

/// What is in use on the driver: the model knows it of this process, a GPU only of all.
void tell_driver_bytes(Figures& figures) noexcept {
  const auto driver = cuda::Driver::instance();
  if (!driver) return;
  if (const assay_model_control* const model = driver.value()->model(); model != nullptr) {
    figures.has_driver = 2;
    figures.driver_bytes =
        model->live_bytes(assay_model_device) + model->live_bytes(assay_model_managed) +
        model->live_bytes(assay_model_pinned) + model->live_bytes(assay_model_pooled) +
        model->live_bytes(assay_model_physical);
    return;
  }
  const auto context = cuda::PrimaryContext::of_device(0);
  if (!context) return;
  const auto current = cuda::Current::of(*context.value());
  std::size_t free = 0;
  std::size_t total = 0;
  if (!current ||
      context.value()->table().cuMemGetInfo_v2(&free, &total) != cuda::abi::Status::success) {
    return;
  }
  figures.has_driver = 1;
  figures.driver_bytes = total - free;
}

void close(void* self, SharedCase& shared) noexcept {
  if (shared.facts.driver != 0) tell_driver_bytes(shared.figures);
  const CheckedBacking& checked = *static_cast<Served*>(self)->checked;
  Figures& figures = shared.figures;
  figures.has_upstream = shared.facts.takes_upstream;
  figures.upstream_live_blocks = checked.counts().live_blocks;
  figures.upstream_live_bytes = checked.counts().live_bytes;
  figures.upstream_refusals = checked.counts().refusals;
  figures.finding_count = 0;
  for (; figures.finding_count < finding_limit && figures.finding_count < checked.counts().findings;
       ++figures.finding_count) {
    shared.findings[figures.finding_count] = checked.finding(figures.finding_count);
  }
}

}  // namespace

bool built_with_sanitizers() noexcept {
#ifdef ASSAY_SANITIZED
  return true;
#else
  return false;
#endif
}

int serve_subject(const Subject& subject, int shared_fd, int control_fd) {
  Served served;
  served.subject = &subject;
  const Provider provider{&served, describe, open, close};
  return serve_cases(provider, shared_fd, control_fd);
}

}  // namespace assay::harness
