#include "graph.hpp"

#include "assay/base/contract.hpp"

namespace assay::ordering {

Graph::Graph(const Program& program) : Graph(program.blocking) {
  for (const Command& command : program.commands) add(command);
}

void Graph::add_all_streams(bool blocking_only, std::vector<std::size_t>& edges) const {
  for (std::size_t i = 0; i < last_.size(); ++i) {
    if (blocking_[i] || !blocking_only) edges.push_back(last_[i]);
  }
  for (const Ended& each : ended_) {
    if (each.blocking || !blocking_only) edges.push_back(each.last);
  }
}

void Graph::add_default_order(const Command& command, std::vector<std::size_t>& edges) const {
  if (command.stream == 0) {
    add_all_streams(true, edges);
  } else if (blocking_[command.stream]) {
    edges.push_back(last_[0]);
  }
}

void Graph::add_wait(const Command& command, Edges& edges) const {
  switch (command.action) {
    case Action::wait_event:
    case Action::sync_event:
    case Action::query_event: edges.sure.push_back(event_[command.event]); break;
    case Action::sync_stream:
    case Action::query_stream:
      edges.sure.push_back(last_[command.stream]);
      if (command.stream == 0) add_all_streams(true, edges.open);
      break;
    case Action::sync_context: add_all_streams(false, edges.sure); break;
    default: break;
  }
}

Graph::Reach Graph::reached(std::size_t node) const {
  if (node == none) return {};
  Reach reach = before_[node];
  reach.sure.set(node);
  reach.generous.set(node);
  return reach;
}

Graph::Reach Graph::reach_of(const Command& command) const {
  Edges edges{{host_}, {}};
  if (is_work(command.action)) {
    edges.sure.push_back(last_[command.stream]);
    const bool open = command.action == Action::wait_event;
    add_default_order(command, open ? edges.open : edges.sure);
  }
  add_wait(command, edges);
  Reach reach;
  for (const std::size_t each : edges.sure) {
    const Reach further = reached(each);
    reach.sure |= further.sure;
    reach.generous |= further.generous;
  }
  for (const std::size_t each : edges.open) reach.generous |= reached(each).generous;
  return reach;
}

void Graph::add(const Command& command) {
  const std::size_t node = nodes_.size();
  ASSAY_CONTRACT(node < command_max, "a program of too many commands");
  const Reach reach = reach_of(command);
  // A function that the host has seen the end of leaves no doubt.
  const Set running = host_functions_ & ~reached(host_).sure;
  follows_host_function_.push_back((reach.generous & running).any());
  nodes_.push_back({command.stream, generation_[command.stream]});
  before_.push_back(reach);
  if (is_work(command.action)) last_[command.stream] = node;
  if (command.action == Action::record) event_[command.event] = node;
  if (command.action == Action::host_function) host_functions_.set(node);
  if (is_wait(command.action) && command.action != Action::wait_event) host_ = node;
  if (command.action == Action::renew_stream) {
    ended_.push_back({last_[command.stream], blocking_[command.stream]});
    last_[command.stream] = none;
    ++generation_[command.stream];
  }
}

bool Graph::stream_lives(std::size_t node) const {
  return nodes_[node].generation == generation_[nodes_[node].stream];
}

std::vector<Conflict> conflicts_of(const Program& program, const Graph& graph, Reading reading) {
  const std::vector<Command>& commands = program.commands;
  std::vector<Conflict> found;
  for (std::size_t made = 0; made < commands.size(); ++made) {
    if (commands[made].action != Action::allocate) continue;
    const std::size_t block = commands[made].block;
    std::vector<std::size_t> users;
    std::size_t freed = commands.size();
    for (std::size_t i = made + 1; i < commands.size(); ++i) {
      const bool frees = is_free(commands[i].action) && commands[i].block == block;
      if (!frees && !uses(commands[i], block)) continue;
      if (freed < commands.size()) {
        found.push_back({freed, i, block});
        continue;
      }
      if (!graph.ordered(made, i, reading)) found.push_back({made, i, block});
      if (frees) {
        for (const std::size_t user : users) {
          if (!graph.ordered(user, i, reading)) found.push_back({user, i, block});
        }
        freed = i;
      } else {
        users.push_back(i);
      }
    }
  }
  return found;
}

}  // namespace assay::ordering
