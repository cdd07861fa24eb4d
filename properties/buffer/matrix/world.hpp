// A World: one value on one kind of backing, everybody else who has a part of its memory, and the
// faults that can be set against it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "assay/buffer/unified_buffer.hpp"
#include "axes.hpp"
#include "checking_backing.hpp"
#include "driver_backings.hpp"
#include "lazy_source.hpp"
#include "scratch_file.hpp"

namespace assay::matrix {

inline constexpr std::size_t value_len = 96;
inline constexpr std::size_t parent_len = 160;  ///< of a value that is a part of a larger one
inline constexpr std::size_t file_offset = 7;
inline constexpr std::size_t view_offset = 30;  ///< of file_view in its parent

/// An adaptor that refuses on request and counts what is asked of it.
class Gate final : public Adaptor {
 public:
  static Ref<Gate> make(const Ref<Backing>& upstream) {
    return Ref<Gate>::adopt(new Gate(upstream));
  }
  bool refuses = false;
  std::uint64_t allocations = 0;  ///< tried
  std::int64_t live = 0;

 private:
  explicit Gate(const Ref<Backing>& upstream) : Adaptor(renamed("gate", *upstream), upstream) {}
  Block do_allocate(const Request& request, Error& error) noexcept override {
    ++allocations;
    if (refuses) {
      error = Error::make(ErrorCode::out_of_memory, "allocate", info().id, request.size);
      return {};
    }
    const Block block = allocate_from(upstream(), request, error);
    live += block ? 1 : 0;
    return block;
  }
  Freed do_deallocate(Block block, const Release& release) noexcept override {
    const Freed freed = deallocate_to(upstream(), block, release);
    live -= freed == Freed::now ? 1 : 0;
    return freed;
  }
  Block do_resize(Block block, const Request& from, const Request& to, MayMove may_move,
                  Error& error) noexcept override {
    if (refuses) {
      error = Error::make(ErrorCode::out_of_memory, "resize", info().id, to.size);
      return {};
    }
    return resize_in(upstream(), block, from, to, may_move, error);
  }
};

/// What is the same for every cell: the model of a driver and the backings on it.
struct Machine {
  const assay_model_control* model = nullptr;
  Ref<Backing> device, pinned, managed;
};

class World {
 public:
  World(const Machine& machine, Subject subject);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Makes the value and its other owners. On error there is none.
  [[nodiscard]] Result<void> make();
  void bring_to(State state);
  void arm(Fault fault);
  void disarm();
  /// Lets everything go and tells what did not come back, or "".
  [[nodiscard]] std::string close();

  struct Owner {
    Bytes bytes;
    std::vector<std::byte> content;
  };

  Bytes value;
  std::vector<std::byte> content;  ///< of `value`, as it should be
  std::vector<Owner> others;

  [[nodiscard]] Home& home() const { return *home_; }
  [[nodiscard]] const Gate& gate() const { return *gate_; }
  [[nodiscard]] Subject subject() const { return subject_; }
  [[nodiscard]] const Machine& machine() const { return machine_; }

 private:
  [[nodiscard]] Ref<Backing> leaf() const;
  void prepare();
  [[nodiscard]] Result<void> make_shared();
  [[nodiscard]] Result<void> make_foreign();
  [[nodiscard]] Result<void> make_of_file();
  [[nodiscard]] Result<void> make_unread();

  const Machine& machine_;
  const Subject subject_;
  const std::int64_t nodes_before_;
  Ref<test::CheckingBacking> checking_ = test::CheckingBacking::make();
  Ref<Gate> gate_;
  Ref<Home> home_;
  std::optional<test::ScratchFile> scratch_;
  Ref<test::LazySource> source_;
  std::optional<UnifiedBuffer> frozen_;
  std::vector<std::uint32_t> vector_;
  std::unique_ptr<std::byte[]> foreign_;
  std::span<std::byte> lent_;
  unsigned given_back_ = 0;
  bool lent_out_ = false;
};

}  // namespace assay::matrix
