#include "assay/harness/trace.hpp"

#include <array>
#include <iterator>
#include <unordered_set>

#include <fmt/format.h>

#include "assay/base/contract.hpp"
#include "assay/harness/text_cursor.hpp"

namespace assay::harness {
namespace {

constexpr std::array<std::string_view, 6> operation_names = {"allocate", "free",  "resize",
                                                             "fill",     "check", "trim"};
constexpr std::string_view magic = "assay-trace";
constexpr std::string_view version = "1";

bool is_key(std::string_view key) noexcept {
  return !key.empty() && key != "events" &&
         key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.-") == std::string_view::npos;
}

bool needs_size(TraceOperation operation) noexcept {
  return operation != TraceOperation::free && operation != TraceOperation::trim;
}

std::string one_line(std::string_view value) {
  std::string line(value);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return std::string(trimmed(line));
}

void write_header(const TraceHeader& header, std::string& text) {
  const auto line = [&text](std::string_view key, std::string_view value) {
    fmt::format_to(std::back_inserter(text), "{}: {}\n", key, one_line(value));
  };
  line("dialect", header.dialect);
  line("subject", header.subject);
  if (!header.property.empty()) line("property", header.property);
  line("seed", fmt::to_string(header.seed));
  line("page_size", fmt::to_string(header.page_size));
  line("clock", header.clock);
  line("dropped", fmt::to_string(header.dropped));
  for (const auto& [key, value] : header.extra) {
    ASSAY_CONTRACT(is_key(key), "a header key is [a-z0-9_.-]+");
    line(key, value);
  }
}

void write_event(const TraceEvent& event, std::string& text) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{} {} {} {} {} {}", event.sequence, event.time_ns, event.thread,
                 event.stream, name_of(event.operation), event.id);
  if (event.size != 0 || needs_size(event.operation)) fmt::format_to(out, " size={}", event.size);
  if (event.alignment != 0) fmt::format_to(out, " alignment={}", event.alignment);
  if (event.offset != 0) fmt::format_to(out, " offset={}", event.offset);
  if (event.init == Init::zero) text += " init=zero";
  fmt::format_to(out, " {}\n", event.outcome == ErrorCode::none ? "ok" : name_of(event.outcome));
}

/// Reads one text from top to bottom; the first problem ends it.
class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : lines_(text), name_(name) {}

  std::expected<LoadedTrace, InputError> run() {
    if (read_first_line() && read_header() && read_events() && read_rest()) {
      return std::move(loaded_);
    }
    return std::unexpected(error_);
  }

 private:
  bool refuse(std::string message) {
    error_ = {name_, lines_.row(), std::move(message)};
    return false;
  }
  bool cut_off() {
    return refuse(fmt::format("the trace is cut off: no 'end' line after {} events",
                              loaded_.trace.events.size()));
  }

  /// The next line that is neither blank nor a comment.
  bool next() {
    while (lines_.next()) {
      line_ = trimmed(lines_.line());
      if (!line_.empty() && line_.front() != '#') return true;
    }
    return false;
  }

  bool read_first_line() {
    if (!lines_.next()) return refuse("the file is empty");
    std::string_view rest = lines_.line();
    if (next_word(rest) != magic) return refuse("not an assay trace: no 'assay-trace' line");
    const std::string_view given = next_word(rest);
    if (given != version || !next_word(rest).empty()) {
      return refuse(fmt::format("trace version {} is not known; this reads version {}",
                                quoted(given), version));
    }
    return true;
  }

  bool read_header() {
    while (next()) {
      if (line_ == "events") return check_header();
      const std::size_t colon = line_.find(':');
      if (colon == std::string_view::npos) {
        return refuse(fmt::format("{} is neither 'key: value' nor 'events'", quoted(line_)));
      }
      if (!header_line(line_.substr(0, colon), trimmed(line_.substr(colon + 1)))) return false;
    }
    return cut_off();
  }

  bool header_line(std::string_view key, std::string_view value) {
    if (!is_key(key)) return refuse(fmt::format("header key {} is malformed", quoted(key)));
    if (!keys_.insert(std::string(key)).second) {
      return refuse(fmt::format("header key '{}' stands twice", key));
    }
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
        return refuse(fmt::format("header '{}' holds a control character: {}", key, quoted(value)));
      }
    }
    TraceHeader& header = loaded_.trace.header;
    if (key == "seed") return number(key, value, header.seed);
    if (key == "page_size") return number(key, value, header.page_size);
    if (key == "dropped") return number(key, value, header.dropped);
    if (key == "dialect" && value != "block") {
      return refuse(fmt::format("dialect {} is not known; known: block", quoted(value)));
    }
    if (key == "dialect") {
      header.dialect = value;
    } else if (key == "subject") {
      header.subject = value;
    } else if (key == "property") {
      header.property = value;
    } else if (key == "clock") {
      header.clock = value;
    } else {
      header.extra.emplace_back(key, value);
    }
    return true;
  }

  bool check_header() {
    if (!keys_.contains("dialect")) return refuse("the header names no dialect");
    return true;
  }

  bool read_events() {
    while (next()) {
      std::string_view rest = line_;
      const std::string_view first = next_word(rest);
      if (first == "end") return read_end(rest);
      TraceEvent event;
      if (!read_event(first, rest, event) || !check_order(event)) return false;
      loaded_.trace.events.push_back(event);
      loaded_.rows.push_back(lines_.row());
    }
    return cut_off();
  }

  bool read_event(std::string_view first, std::string_view rest, TraceEvent& event) {
    if (!number("sequence", first, event.sequence) ||
        !number("time", next_word(rest), event.time_ns) ||
        !number("thread", next_word(rest), event.thread) ||
        !number("stream", next_word(rest), event.stream)) {
      return false;
    }
    const std::string_view operation = next_word(rest);
    const auto known = trace_operation_of(operation);
    if (!known) return refuse(fmt::format("operation {} is not known", quoted(operation)));
    event.operation = *known;
    if (!number("id", next_word(rest), event.id)) return false;
    return read_figures(rest, event);
  }

  bool read_figures(std::string_view rest, TraceEvent& event) {
    unsigned seen = 0;
    std::string_view word = next_word(rest);
    for (; word.find('=') != std::string_view::npos; word = next_word(rest)) {
      const std::size_t equals = word.find('=');
      if (!figure(word.substr(0, equals), word.substr(equals + 1), event, seen)) return false;
    }
    if (needs_size(event.operation) && (seen & size_seen) == 0) {
      return refuse(fmt::format("'{}' names no size", name_of(event.operation)));
    }
    event.outcome = error_code_of(word);
    if (word.empty()) return refuse("the event names no outcome");
    if (word != "ok" && event.outcome == ErrorCode::none) {
      return refuse(fmt::format("outcome {} is neither 'ok' nor an error code", quoted(word)));
    }
    if (const auto more = next_word(rest); !more.empty()) {
      return refuse(fmt::format("{} follows the outcome", quoted(more)));
    }
    return true;
  }

  bool figure(std::string_view key, std::string_view value, TraceEvent& event, unsigned& seen) {
    const unsigned bit = key == "size"        ? size_seen
                         : key == "alignment" ? alignment_seen
                         : key == "offset"    ? offset_seen
                         : key == "init"      ? init_seen
                                              : 0U;
    if (bit == 0) return refuse(fmt::format("key {} is not known", quoted(key)));
    if ((seen & bit) != 0) return refuse(fmt::format("key '{}' stands twice", key));
    seen |= bit;
    if (bit == size_seen) return number(key, value, event.size);
    if (bit == alignment_seen) return number(key, value, event.alignment);
    if (bit == offset_seen) return number(key, value, event.offset);
    if (value != "zero" && value != "undefined") {
      return refuse(fmt::format("init {} is neither 'zero' nor 'undefined'", quoted(value)));
    }
    event.init = value == "zero" ? Init::zero : Init::undefined;
    return true;
  }

  /// What one event alone cannot tell: sequences increase, no id is allocated while live.
  bool check_order(const TraceEvent& event) {
    const auto& events = loaded_.trace.events;
    if (!events.empty() && event.sequence <= events.back().sequence) {
      return refuse(
          fmt::format("sequence {} does not follow {}", event.sequence, events.back().sequence));
    }
    if (event.outcome != ErrorCode::none) return true;
    if (event.operation == TraceOperation::free) live_.erase(event.id);
    if (event.operation == TraceOperation::allocate && !live_.insert(event.id).second) {
      return refuse(fmt::format("id {} is allocated while it is live", event.id));
    }
    return true;
  }

  bool read_end(std::string_view rest) {
    std::uint64_t count = 0;
    if (!number("end", next_word(rest), count)) return false;
    if (!next_word(rest).empty()) return refuse("the 'end' line holds more than a count");
    if (count != loaded_.trace.events.size()) {
      return refuse(fmt::format("the trace is cut off: {} events, and 'end' says {}",
                                loaded_.trace.events.size(), count));
    }
    return true;
  }

  bool read_rest() { return next() ? refuse("text follows the 'end' line") : true; }

  template <class T>
  bool number(std::string_view what, std::string_view text, T& into) {
    const auto value = parse_number<T>(text);
    if (!value) {
      return refuse(
          fmt::format("{} {} is not a number of {} bits", what, quoted(text), sizeof(T) * 8));
    }
    into = *value;
    return true;
  }

  enum : unsigned { size_seen = 1, alignment_seen = 2, offset_seen = 4, init_seen = 8 };

  Lines lines_;
  const std::string& name_;
  std::string_view line_;
  LoadedTrace loaded_;
  InputError error_;
  std::unordered_set<std::string> keys_;
  std::unordered_set<std::uint64_t> live_;
};

}  // namespace

std::string_view name_of(TraceFormat format) noexcept {
  return format == TraceFormat::rmm_csv ? "rmm-csv" : "assay-trace";
}

std::string_view name_of(TraceOperation operation) noexcept {
  return operation_names[static_cast<std::size_t>(operation)];
}

std::optional<TraceOperation> trace_operation_of(std::string_view name) noexcept {
  for (std::size_t i = 0; i < operation_names.size(); ++i) {
    if (operation_names[i] == name) return static_cast<TraceOperation>(i);
  }
  return std::nullopt;
}

std::string to_text(const Trace& trace) {
  std::string text = fmt::format("{} {}\n", magic, version);
  write_header(trace.header, text);
  text += "events\n";
  for (const TraceEvent& event : trace.events) write_event(event, text);
  fmt::format_to(std::back_inserter(text), "end {}\n", trace.events.size());
  return text;
}

std::expected<LoadedTrace, InputError> parse_trace_rows(std::string_view text,
                                                        const std::string& name) {
  return Parser(text, name).run();
}

std::expected<Trace, InputError> parse_trace(std::string_view text, const std::string& name) {
  auto loaded = parse_trace_rows(text, name);
  if (!loaded) return std::unexpected(std::move(loaded.error()));
  return std::move(loaded->trace);
}

}  // namespace assay::harness
