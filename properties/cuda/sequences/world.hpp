// World: the slots of a sequence, each a live allocation with a host mirror of its contents.
#pragma once

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "suite/run.hpp"

namespace assay::conformance {

/// A step that gave a code it must not give, or bytes that are not the mirror's.
struct SequenceFailed {
  std::string message;
};

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
  void finish();
  [[nodiscard]] const std::vector<std::string>& trace() const noexcept { return trace_; }

 private:
  enum class Kind : std::uint8_t { empty, device, managed, pinned };
  struct Slot {
    Kind kind = Kind::empty;
    DevicePointer address = 0;
    std::vector<unsigned char> mirror;
    int stream = -1;  ///< where work may be under way, or -1
  };
  struct Range {
    std::size_t slot, offset, size;
  };

  void told(std::string step);
  void good(Status status, const char* call);
  void settle(Slot& slot);
  void settle_for(Slot& slot, int stream);
  void settle_for_host(Slot& slot);
  [[nodiscard]] bool managed_works() const;
  [[nodiscard]] std::size_t any_live(std::mt19937_64& random);
  [[nodiscard]] Range any_range(std::mt19937_64& random);

  void allocate(std::mt19937_64& random);
  void release(std::size_t slot);
  void set(std::mt19937_64& random);
  void copy(std::mt19937_64& random);
  void send(std::mt19937_64& random);
  void store(std::mt19937_64& random);
  void advise(std::mt19937_64& random);
  void prefetch(std::mt19937_64& random);
  void check(std::size_t slot);

  const Session& session_;
  const abi::DriverTable& cu_;
  const bool say_steps_;
  std::array<Slot, 8> slots_{};
  std::array<abi::Stream, 2> streams_{};
  std::vector<std::string> trace_;
};

}  // namespace assay::conformance
