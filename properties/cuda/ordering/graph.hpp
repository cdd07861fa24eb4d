// Graph: what in a program is ordered after what, and the uses of memory that no order protects.
#pragma once

#include <bitset>
#include <vector>

#include "program.hpp"

namespace assay::ordering {

/// Where the driver's documents leave an order open, a correct program must not rely on it, and
/// nobody is blamed for relying on it either.
enum class Reading : std::uint8_t { sure, generous };

/// One node for each command, one edge for each reason why something is ordered; the rest is
/// reachability. What is open:
///
/// - a wait of the host for the default stream may be one for every blocking stream;
/// - a cuStreamWaitEvent that has nothing to wait for may still be an action of its stream, and so
///   take part in the order of the default stream;
/// - what follows a host function in its stream may be after anything that the program did before
///   the function ended, for the function may wait for it.
class Graph {
 public:
  static constexpr std::size_t command_max = 512;
  using Set = std::bitset<command_max>;

  explicit Graph(const Program& program);
  /// Of an empty program, to be filled by add().
  explicit Graph(std::array<bool, Program::stream_max> blocking) : blocking_(blocking) {}

  void add(const Command& command);
  /// Everything that the command would surely be after, were it added now.
  [[nodiscard]] Set before(const Command& command) const { return reach_of(command).sure; }

  /// Is command `a` before command `b`?
  [[nodiscard]] bool ordered(std::size_t a, std::size_t b, Reading reading) const {
    if (reading == Reading::sure) return before_[b].sure[a];
    return before_[b].generous[a] || follows_host_function_[b];
  }
  /// Everything up to the event's last record, that included; nothing if it never was recorded.
  [[nodiscard]] Set recorded(std::size_t event) const { return reached(event_[event]).sure; }
  /// Is that command's stream still there?
  [[nodiscard]] bool stream_lives(std::size_t node) const;
  [[nodiscard]] std::size_t stream_of(std::size_t node) const { return nodes_[node].stream; }

 private:
  static constexpr std::size_t none = command_max;
  struct Node {
    std::uint8_t stream = 0;
    std::size_t generation = 0;  ///< of the stream: one that was renewed is another
  };
  struct Edges {
    std::vector<std::size_t> sure;
    std::vector<std::size_t> open;
  };
  struct Reach {
    Set sure;
    Set generous;
  };
  struct Ended {
    std::size_t last;
    bool blocking;
  };

  void add_default_order(const Command& command, std::vector<std::size_t>& edges) const;
  void add_all_streams(bool blocking_only, std::vector<std::size_t>& edges) const;
  void add_wait(const Command& command, Edges& edges) const;
  [[nodiscard]] Reach reach_of(const Command& command) const;
  [[nodiscard]] Reach reached(std::size_t node) const;

  std::array<bool, Program::stream_max> blocking_;
  std::vector<Node> nodes_;
  std::vector<Reach> before_;
  std::vector<bool> follows_host_function_;
  std::array<std::size_t, Program::stream_max> last_{none, none, none, none};
  std::array<std::size_t, Program::stream_max> generation_{};
  std::array<std::size_t, Program::event_count> event_{none, none, none, none};
  std::vector<Ended> ended_;  ///< streams that were destroyed
  std::size_t host_ = none;   ///< the last wait of the host
  Set host_functions_;
};

/// Two commands on one block that no order protects; `later` was called later.
struct Conflict {
  std::size_t earlier = 0;
  std::size_t later = 0;
  std::size_t block = 0;
};

/// Uses and frees that are not after the allocation, uses and a free that are not ordered, uses
/// that were called after the free.
[[nodiscard]] std::vector<Conflict> conflicts_of(const Program& program, const Graph& graph,
                                                 Reading reading);

}  // namespace assay::ordering
