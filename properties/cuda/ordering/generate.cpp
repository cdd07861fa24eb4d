#include "generate.hpp"

#include <algorithm>
#include <optional>

#include "graph.hpp"

namespace assay::ordering {

namespace {

class Maker {
 public:
  explicit Maker(const Shape& shape) : shape_(shape), program_(program_of(shape)) {}

  void step(const Intent& intent);
  Program finish();

 private:
  struct Block {
    std::uint16_t id;
    std::size_t made;
    std::vector<std::size_t> reads;
    std::vector<std::size_t> writes;
  };
  static constexpr std::size_t live_max = 5;
  /// Waits and the frees at the end need room too.
  static constexpr std::size_t command_max = Graph::command_max / 2;

  static Program program_of(const Shape& shape);
  [[nodiscard]] std::uint8_t stream_of(const Intent& intent) const;
  Block* block_of(const Intent& intent);
  [[nodiscard]] std::size_t add(const Command& command);
  void add_ordered(Command command, const std::vector<std::size_t>& after, unsigned style,
                   std::size_t& at);
  void order(const Command& command, std::size_t earlier, unsigned style);
  [[nodiscard]] std::optional<std::uint8_t> event_after(std::size_t node) const;
  [[nodiscard]] static std::vector<std::size_t> needs(const Block& block, bool writes,
                                                      bool ordered);
  void allocate(const Intent& intent);
  void use(const Intent& intent, Action action);
  void copy(const Intent& intent);
  void free(const Intent& intent, Action action);
  void wait_for_nothing(const Intent& intent);

  Shape shape_;
  Program program_;
  Graph graph_{program_.blocking};
  std::vector<Block> live_;
  std::uint16_t blocks_made_ = 0;
};

Program Maker::program_of(const Shape& shape) {
  Program program;
  program.writes_ordered = shape.writes_ordered;
  for (std::size_t i = 1; i < shape.streams; ++i) program.blocking[i] = shape.default_stream;
  return program;
}

std::uint8_t Maker::stream_of(const Intent& intent) const {
  const unsigned first = shape_.default_stream ? 0 : 1;
  return static_cast<std::uint8_t>(first + intent.stream % (shape_.streams + 1U - first));
}

Maker::Block* Maker::block_of(const Intent& intent) {
  return live_.empty() ? nullptr : &live_[intent.block % live_.size()];
}

std::size_t Maker::add(const Command& command) {
  program_.commands.push_back(command);
  graph_.add(command);
  return program_.commands.size() - 1;
}

std::optional<std::uint8_t> Maker::event_after(std::size_t node) const {
  for (std::uint8_t i = 0; i < Program::event_count; ++i) {
    if (graph_.recorded(i)[node]) return i;
  }
  return std::nullopt;
}

/// Puts a wait in, so that `command` will be after `earlier`.
void Maker::order(const Command& command, std::size_t earlier, unsigned style) {
  constexpr unsigned ways = 8;
  const unsigned way = style % ways;
  const auto stream = static_cast<std::uint8_t>(graph_.stream_of(earlier));
  std::optional<std::uint8_t> event = way < 2 ? event_after(earlier) : std::nullopt;
  const bool wait_for_event = way < 4 && command.action != Action::free_now;
  const bool by_event = wait_for_event || way == 5 || way == 7;
  if (!graph_.stream_lives(earlier) && !event) event = event_after(earlier);
  if (!event && (way == 6 || !graph_.stream_lives(earlier))) {
    static_cast<void>(add({.action = Action::sync_context}));
    return;
  }
  if (!by_event && graph_.stream_lives(earlier)) {
    const Action action = style / ways % 2 == 0 ? Action::sync_stream : Action::query_stream;
    static_cast<void>(add({.action = action, .stream = stream}));
    return;
  }
  if (!event) {
    event = static_cast<std::uint8_t>(style / ways % Program::event_count);
    static_cast<void>(add({.action = Action::record, .stream = stream, .event = *event}));
  }
  if (wait_for_event) {
    static_cast<void>(
        add({.action = Action::wait_event, .stream = command.stream, .event = *event}));
  } else {
    const Action action = way % 4 == 1 ? Action::sync_event : Action::query_event;
    static_cast<void>(add({.action = action, .event = *event}));
  }
}

void Maker::add_ordered(Command command, const std::vector<std::size_t>& after, unsigned style,
                        std::size_t& at) {
  for (const std::size_t earlier : after) {
    if (!graph_.before(command)[earlier]) order(command, earlier, style);
    style = style / 2 + 5 * (style % 7);
  }
  at = add(command);
}

/// What a use of the block has to be after.
std::vector<std::size_t> Maker::needs(const Block& block, bool writes, bool ordered) {
  std::vector<std::size_t> after{block.made};
  if (ordered) after.insert(after.end(), block.writes.begin(), block.writes.end());
  if (ordered && writes) after.insert(after.end(), block.reads.begin(), block.reads.end());
  return after;
}

void Maker::allocate(const Intent& intent) {
  if (live_.size() >= live_max) return free(intent, Action::free);
  const std::uint16_t id = blocks_made_++;
  const std::size_t made =
      add({.action = Action::allocate, .stream = stream_of(intent), .block = id});
  live_.push_back({id, made, {}, {}});
}

void Maker::use(const Intent& intent, Action action) {
  Block* block = block_of(intent);
  if (block == nullptr) return allocate(intent);
  const bool writes = action == Action::set;
  std::size_t at = 0;
  add_ordered({.action = action,
               .stream = stream_of(intent),
               .block = block->id,
               .value = intent.value,
               .part = static_cast<std::uint8_t>(intent.value % 3)},
              needs(*block, writes, shape_.writes_ordered), intent.style, at);
  (writes ? block->writes : block->reads).push_back(at);
}

void Maker::copy(const Intent& intent) {
  if (live_.size() < 2) return use(intent, Action::set);
  Block& target = *block_of(intent);
  const std::size_t step = 1 + intent.value % (live_.size() - 1);
  Block& source = live_[(intent.block + step) % live_.size()];
  std::vector<std::size_t> after = needs(target, true, shape_.writes_ordered);
  const std::vector<std::size_t> more = needs(source, false, shape_.writes_ordered);
  after.insert(after.end(), more.begin(), more.end());
  std::size_t at = 0;
  add_ordered({.action = Action::copy,
               .stream = stream_of(intent),
               .block = target.id,
               .source = source.id},
              after, intent.style, at);
  target.writes.push_back(at);
  source.reads.push_back(at);
}

void Maker::free(const Intent& intent, Action action) {
  Block* block = block_of(intent);
  if (block == nullptr) return allocate(intent);
  std::size_t at = 0;
  add_ordered({.action = action, .stream = stream_of(intent), .block = block->id},
              needs(*block, true, true), intent.style, at);
  live_.erase(live_.begin() + (block - live_.data()));
}

void Maker::wait_for_nothing(const Intent& intent) {
  constexpr std::array waits{Action::wait_event,   Action::sync_stream,  Action::sync_event,
                             Action::query_stream, Action::query_event,  Action::wait_event,
                             Action::wait_event,   Action::sync_context, Action::wait_event};
  static_cast<void>(add({.action = waits[intent.value % waits.size()],
                         .stream = stream_of(intent),
                         .event = static_cast<std::uint8_t>(intent.block % Program::event_count)}));
}

void Maker::step(const Intent& intent) {
  if (program_.commands.size() >= command_max) return;
  const std::uint8_t stream = stream_of(intent);
  switch (intent.what % 16) {
    case 0:
    case 1:
    case 2: return allocate(intent);
    case 3:
    case 4:
    case 5: return use(intent, Action::set);
    case 6:
    case 7: return copy(intent);
    case 8:
    case 9: return use(intent, Action::read);
    case 10:
    case 11: return free(intent, Action::free);
    case 12:
      return free(intent,
                  shape_.host_frees && intent.value % 4 == 0 ? Action::free_now : Action::free);
    case 13:
      static_cast<void>(
          add({.action = Action::record,
               .stream = stream,
               .event = static_cast<std::uint8_t>(intent.value % Program::event_count)}));
      return;
    case 14: return wait_for_nothing(intent);
    default:
      if (shape_.host_functions && intent.value % 2 == 0) {
        static_cast<void>(add({.action = Action::host_function, .stream = stream}));
      } else if (shape_.renewals && stream != 0) {
        static_cast<void>(add({.action = Action::renew_stream, .stream = stream}));
      } else {
        wait_for_nothing(intent);
      }
  }
}

Program Maker::finish() {
  for (std::uint8_t i = 0; !live_.empty(); ++i) {
    free({.stream = i, .block = i, .style = static_cast<std::uint8_t>(37 * i)}, Action::free);
  }
  return std::move(program_);
}

}  // namespace

Program make_program(const Shape& shape, const std::vector<Intent>& intents) {
  Maker maker(shape);
  for (const Intent& intent : intents) maker.step(intent);
  return maker.finish();
}

}  // namespace assay::ordering
