// World: the slots of a sequence, each a live allocation with a host mirror of its contents.
#pragma once

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "suite/run.hpp"

namespace assay::conformance {

/// A step that gave a code it must not give, or bytes that are not the mirror's.
struct SequenceFailed {
  std::string message;
};

/// How the model's diagnosis of what World::close() asks begins.
inline constexpr std::string_view refused_on_purpose = "access_denied:";

[[nodiscard]] inline std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return random() % limit;
}

/// **Invariants** `mirror` is what the slot holds once its stream is idle; work on a slot is
/// ordered on one stream at a time.
class World {
 public:
  /// `say_steps`: write each step to standard output before it is taken.
  World(const Session& session, bool say_steps);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void step(std::mt19937_64& random);
  /// Checks and frees every slot, and asks the model that nothing is left.
  void finish(std::mt19937_64& random);
  [[nodiscard]] const std::vector<std::string>& trace() const noexcept { return trace_; }

 private:
  enum class Kind : std::uint8_t { empty, device, managed, pinned, pooled, mapped };
  struct Slot {
    Kind kind = Kind::empty;
    DevicePointer address = 0;
    std::vector<unsigned char> mirror;
    int stream = -1;                   ///< where work may be under way, or -1
    abi::AllocationHandle handle = 0;  ///< mapped: of one granule,
    DevicePointer reservation = 0;     ///< in one half of this, which is two granules,
    std::size_t half = 0;              ///< 0 or a granule: which half
  };
  /// A block that was freed behind a copy of it which nobody has waited for.
  struct Farewell {
    std::vector<unsigned char> seen, mirror;
    std::string step;
  };
  struct Range {
    std::size_t slot, offset, size;
  };

  void told(std::string step);
  void good(Status status, const char* call);
  void settle(Slot& slot);
  void settle_for(Slot& slot, int stream);
  void settle_for_host(Slot& slot);
  [[nodiscard]] Kind any_kind(std::mt19937_64& random) const;
  [[nodiscard]] static bool host_reaches(Kind kind) noexcept {
    return kind == Kind::managed || kind == Kind::pinned;
  }
  [[nodiscard]] std::size_t any_stream(std::mt19937_64& random) const;
  void compare(const std::vector<unsigned char>& mirror, const std::vector<unsigned char>& seen,
               const std::string& what) const;
  [[nodiscard]] std::size_t any_live(std::mt19937_64& random);
  [[nodiscard]] Range any_range(std::mt19937_64& random);

  void allocate(std::mt19937_64& random);
  void release(std::mt19937_64& random, std::size_t slot);
  void set(std::mt19937_64& random);
  void copy(std::mt19937_64& random);
  void send(std::mt19937_64& random);
  void store(std::mt19937_64& random);
  void advise(std::mt19937_64& random);
  void prefetch(std::mt19937_64& random);
  void check(std::size_t slot);

  // Stream-ordered pools: world_pools.cpp.
  void make_pool();
  void end_pool();
  void allocate_pooled(std::mt19937_64& random, Slot& slot, std::size_t size);
  void free_pooled(std::mt19937_64& random, std::size_t slot);
  void order(std::size_t before, std::size_t after);
  void trim(std::mt19937_64& random);
  void settle_farewells();

  // Virtual memory management: world_virtual.cpp.
  void ask_granule();
  void allocate_mapped(std::mt19937_64& random, Slot& slot, std::size_t size);
  void free_mapped(std::mt19937_64& random, std::size_t slot);
  void place(Slot& slot, std::size_t half);
  void grant(DevicePointer at, abi::AccessFlags flags);
  [[nodiscard]] std::size_t any_mapped(std::mt19937_64& random) const;
  void remap(std::mt19937_64& random);
  void alias(std::mt19937_64& random);
  void close(std::mt19937_64& random);

  const Session& session_;
  const abi::DriverTable& cu_;
  const bool say_steps_;
  std::array<Slot, 8> slots_{};
  std::array<abi::Stream, 2> streams_{};
  abi::MemPool pool_ = nullptr;  ///< null: the device has none
  std::vector<Farewell> farewells_;
  std::size_t granule_ = 0;  ///< 0: the device manages no virtual memory
  std::vector<std::string> trace_;
};

}  // namespace assay::conformance
