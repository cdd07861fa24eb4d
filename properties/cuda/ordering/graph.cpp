#include "graph.hpp"

#include "assay/base/contract.hpp"

namespace assay::ordering {

Graph::Graph(const Program& program, Reading reading) : Graph(program.blocking, reading) {
  for (const Command& command : program.commands) add(command);
}

void Graph::add_stream_edges(const Command& command, std::vector<std::size_t>& edges) const {
  edges.push_back(last_[command.stream]);
  if (command.action == Action::wait_event && reading_ == Reading::sure) return;
  if (command.stream == 0) {
    for (std::size_t i = 1; i < last_.size(); ++i) {
      if (blocking_[i]) edges.push_back(last_[i]);
    }
    for (const Ended& each : ended_) {
      if (each.blocking) edges.push_back(each.last);
    }
  } else if (blocking_[command.stream]) {
    edges.push_back(last_[0]);
  }
}

void Graph::add_wait_edges(const Command& command, std::vector<std::size_t>& edges) const {
  switch (command.action) {
    case Action::wait_event:
    case Action::sync_event:
    case Action::query_event: edges.push_back(event_[command.event]); return;
    case Action::sync_stream:
    case Action::query_stream:
      edges.push_back(last_[command.stream]);
      if (command.stream != 0 || reading_ == Reading::sure) return;
      break;
    case Action::sync_context: break;
    default: return;
  }
  const bool all = command.action == Action::sync_context;
  for (std::size_t i = 0; i < last_.size(); ++i) {
    if (all || blocking_[i]) edges.push_back(last_[i]);
  }
  for (const Ended& each : ended_) {
    if (all || each.blocking) edges.push_back(each.last);
  }
}

std::vector<std::size_t> Graph::edges_to(const Command& command) const {
  std::vector<std::size_t> edges{host_};
  if (is_work(command.action)) add_stream_edges(command, edges);
  add_wait_edges(command, edges);
  return edges;
}

Graph::Set Graph::reached(std::size_t node) const {
  if (node == none) return {};
  Set set = before_[node];
  set.set(node);
  return set;
}

Graph::Set Graph::before(const Command& command) const {
  Set set;
  for (const std::size_t each : edges_to(command)) set |= reached(each);
  return set;
}

void Graph::add(const Command& command) {
  const std::size_t node = nodes_.size();
  ASSAY_CONTRACT(node < command_max, "a program of too many commands");
  const Set set = before(command);
  // One that the host has seen the end of leaves no doubt.
  const Set pending = host_functions_ & ~reached(host_);
  follows_host_function_.push_back(reading_ == Reading::generous && (set & pending).any());
  nodes_.push_back({command.stream, generation_[command.stream]});
  before_.push_back(set);
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

std::vector<Conflict> conflicts_of(const Program& program, const Graph& graph) {
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
      if (!graph.ordered(made, i)) found.push_back({made, i, block});
      if (frees) {
        for (const std::size_t user : users) {
          if (!graph.ordered(user, i)) found.push_back({user, i, block});
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
