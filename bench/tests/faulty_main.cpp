// assay-bench-faulty: subjects that are broken on purpose, to prove that a broken one never yields
// a fast row and never takes the others with it.
#include <array>
#include <csignal>

#include <unistd.h>

#include "allocate_free.hpp"
#include "allocate_free_batch.hpp"
#include "assay/backing/heap.hpp"
#include "program.hpp"

namespace assay::bench {
namespace {

enum class Fault { none, refuses_later, refuses, crashes, hangs, short_blocks, shares, exits };

constexpr std::size_t faulty_from_bytes = 256;  // smaller blocks are served well

/// heap, broken in one way.
class Faulty final : public Adaptor {
 public:
  explicit Faulty(Fault fault) : Faulty(fault, Heap::make()) {}

 private:
  Faulty(Fault fault, const Ref<Backing>& heap)
      : Adaptor(renamed("faulty", *heap), heap), fault_(fault) {}

  Block do_allocate(const Request& request, Error& error) noexcept override {
    ++calls_;
    if (request.size < faulty_from_bytes) return allocate_from(upstream(), request, error);
    if (!survives(request, error)) return {};
    if (fault_ == Fault::shares && sharers_++ > 0) return shared_;
    shared_ = allocate_from(upstream(), request, error);
    if (fault_ == Fault::short_blocks) return {shared_.address, request.size - 1};
    return shared_;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    if (release.request.size >= faulty_from_bytes) {
      if (fault_ == Fault::short_blocks) block.capacity = footprint(release.request);
      if (fault_ == Fault::exits) ::_exit(9);
      if (fault_ == Fault::shares && --sharers_ > 0) return Freed::now;
    }
    return deallocate_to(upstream(), block, release);
  }
  bool survives(const Request& request, Error& error) noexcept {
    constexpr std::uint64_t calls_before_timing = 8;
    if (fault_ == Fault::crashes) ::raise(SIGSEGV);
    while (fault_ == Fault::hangs) ::pause();
    if (fault_ == Fault::refuses ||
        (fault_ == Fault::refuses_later && calls_ > calls_before_timing)) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
      return false;
    }
    return true;
  }

  Fault fault_;
  std::uint64_t calls_ = 0;
  std::uint64_t sharers_ = 0;
  Block shared_{};
};

template <Fault fault>
constexpr harness::Subject subject(std::string_view id) {
  return {.id = id,
          .origin = harness::Origin::foreign,
          .summary = "broken on purpose",
          .make = [](const harness::SubjectContext&) -> Result<Ref<Backing>> {
            return Ref<Backing>(Ref<Faulty>::adopt(new Faulty(fault)));
          }};
}

constexpr harness::Subject preloaded(std::string_view id, std::string_view library) {
  auto made = subject<Fault::none>(id);
  made.preload = library;
  made.package = "assay-test-package";
  return made;
}

class SmallOne : public AllocateFree {
 public:
  static constexpr Family facts = [] {
    Family family = AllocateFree::facts;
    family.sizes = {.first = 64, .last = 1024, .last_full = 1024};
    return family;
  }();
  using AllocateFree::AllocateFree;
};

class SmallBatch : public AllocateFreeBatch {
 public:
  static constexpr Family facts = [] {
    Family family = AllocateFreeBatch::facts;
    family.sizes = {.first = 256, .last = 256, .last_full = 256};
    return family;
  }();
  using AllocateFreeBatch::AllocateFreeBatch;
};

/// Says that it allocates once, and allocates twice.
class Miscounted : public AllocateFree {
 public:
  static constexpr Family facts{.name = "miscounted",
                                .summary = "",
                                .sizes = {.first = 64, .last = 64, .last_full = 64},
                                .allocations = 1};
  using AllocateFree::AllocateFree;
  bool operator()(Backing& backing, Error& error) noexcept {
    return AllocateFree::operator()(backing, error) && AllocateFree::operator()(backing, error);
  }
};

}  // namespace
}  // namespace assay::bench

int main(int argc, char** argv) {
  using namespace assay::bench;
  static constexpr std::array all = {
      subject<Fault::none>("fine"),
      subject<Fault::refuses_later>("refuses_later"),
      subject<Fault::refuses>("refuses"),
      subject<Fault::crashes>("crashes"),
      subject<Fault::hangs>("hangs"),
      subject<Fault::short_blocks>("short_blocks"),
      subject<Fault::shares>("shares"),
      subject<Fault::exits>("exits"),
      preloaded("absent", "libassay-no-such-library.so.1"),
      preloaded("not_malloc", "libz.so.1"),
  };
  static constexpr Family one = family_of<SmallOne>();
  static constexpr Family batch = family_of<SmallBatch>();
  static constexpr Family miscounted = family_of<Miscounted>();
  static constexpr std::array<const Family*, 3> offered = {&one, &batch, &miscounted};
  std::array<const assay::harness::Subject*, all.size()> subjects{};
  for (std::size_t i = 0; i < all.size(); ++i) subjects[i] = &all[i];
  return bench_main(argc, argv, {.subjects = subjects, .families = offered});
}
