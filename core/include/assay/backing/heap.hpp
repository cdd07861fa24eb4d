// heap: aligned host memory from the process's malloc.
#pragma once

#include "assay/backing/backing.hpp"
#include "assay/base/live_count.hpp"

namespace assay {

/// Host memory from `malloc`; out of memory is an error, never an abort.
///
///     alignment <= 16:  | payload ......................... |
///     above:            | padding | base pointer | payload ......... |   (base pointer: 8 bytes)
///
/// Over-alignment is done by hand: aligned_alloc costs 35–63 ns where malloc costs 9–27
/// (perf.md section 5). **Threads** safe from any thread.
class Heap final : public Backing {
 public:
  [[nodiscard]] static Ref<Heap> make();
  ~Heap() override;

 private:
  Heap() noexcept;
  Block do_allocate(const Request& request, Error& error) noexcept override;
  Freed do_deallocate(Block block, const Release& release) noexcept override;
  [[nodiscard]] std::size_t do_footprint(const Request& request) const noexcept override;
  [[nodiscard]] Usage do_usage() const noexcept override;
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override;

  LiveCount live_;
};

}  // namespace assay
