#include "assay/harness/rmm_csv.hpp"

#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "assay/harness/text_cursor.hpp"

namespace assay::harness {
namespace {

constexpr std::string_view header = "Thread,Time,Action,Pointer,Size,Stream";
constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t day_ns = 24 * 3600 * second_ns;

/// A decimal number, or a hexadecimal one after 0x.
std::optional<std::uint64_t> any_number(std::string_view text) noexcept {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    return parse_number<std::uint64_t>(text.substr(2), 16);
  }
  return parse_number<std::uint64_t>(text);
}

/// HH:MM:SS and up to nine digits after ':' or '.', as nanoseconds since midnight.
std::optional<std::uint64_t> time_of_day(std::string_view text) noexcept {
  if (text.size() < 10 || text.size() > 18 || text[2] != ':' || text[5] != ':' ||
      (text[8] != ':' && text[8] != '.')) {
    return std::nullopt;
  }
  const auto hours = parse_number<std::uint64_t>(text.substr(0, 2));
  const auto minutes = parse_number<std::uint64_t>(text.substr(3, 2));
  const auto seconds = parse_number<std::uint64_t>(text.substr(6, 2));
  const std::string_view digits = text.substr(9);
  auto fraction = parse_number<std::uint64_t>(digits);
  if (!hours || !minutes || !seconds || !fraction || *hours > 23 || *minutes > 59 ||
      *seconds > 60) {
    return std::nullopt;
  }
  for (std::size_t i = digits.size(); i < 9; ++i) *fraction *= 10;
  return ((*hours * 60 + *minutes) * 60 + *seconds) * second_ns + *fraction;
}

class Importer {
 public:
  Importer(std::string_view text, const std::string& name) : lines_(text), name_(name) {}

  std::expected<LoadedTrace, InputError> run() {
    if (!check_first_line()) return std::unexpected(error_);
    loaded_.format = TraceFormat::rmm_csv;
    loaded_.trace.header.clock = "wall";
    while (lines_.next()) {
      if (!read_row(lines_.line())) return std::unexpected(error_);
    }
    return std::move(loaded_);
  }

 private:
  using Fields = std::array<std::string_view, 6>;  // in the order of the header

  bool refuse(std::string message) {
    error_ = {name_, lines_.row(), std::move(message)};
    return false;
  }

  bool check_first_line() {
    if (!lines_.next()) return refuse("the file is empty");
    const std::string_view line = lines_.line();
    if (line == header) return true;
    if (line.find("RMM LOG BEGIN") != std::string_view::npos) {
      return refuse(fmt::format(
          "this is RMM's debug log; a replay needs the CSV with the header {}", header));
    }
    return refuse(
        fmt::format("{} starts neither an assay trace ('assay-trace 1') nor an RMM log "
                    "('{}')",
                    quoted(line), header));
  }

  bool read_row(std::string_view line) {
    Fields fields;
    std::size_t count = 1;
    std::string_view rest = line;
    for (std::size_t comma = rest.find(','); comma != std::string_view::npos;
         comma = rest.find(',')) {
      if (count < fields.size()) fields[count - 1] = trimmed(rest.substr(0, comma));
      rest.remove_prefix(comma + 1);
      ++count;
    }
    if (count != fields.size() || trimmed(rest).empty()) {
      return refuse(fmt::format("the row is cut off or malformed: {} fields where {} are needed",
                                trimmed(rest).empty() ? count - 1 : count, fields.size()));
    }
    fields.back() = trimmed(rest);
    TraceEvent event;
    if (!read_figures(fields, event) || !read_action(fields, event)) return false;
    loaded_.trace.events.push_back(event);
    loaded_.rows.push_back(lines_.row());
    return true;
  }

  bool read_figures(const Fields& fields, TraceEvent& event) {
    const auto thread = any_number(fields[0]);
    if (!thread) return refuse(fmt::format("thread {} is not a number", quoted(fields[0])));
    const auto time = time_of_day(fields[1]);
    if (!time) {
      return refuse(fmt::format("time {} is not HH:MM:SS and a fraction", quoted(fields[1])));
    }
    const auto size = parse_number<std::uint64_t>(fields[4]);
    if (!size) return refuse(fmt::format("size {} is not a number", quoted(fields[4])));
    const auto stream = any_number(fields[5]);
    if (!stream) return refuse(fmt::format("stream {} is not a number", quoted(fields[5])));
    event.sequence = loaded_.trace.events.size();
    event.thread =
        threads_.try_emplace(*thread, static_cast<std::uint32_t>(threads_.size())).first->second;
    event.time_ns = since_start(*time);
    event.size = *size;
    event.stream = *stream;
    return true;
  }

  bool read_action(const Fields& fields, TraceEvent& event) {
    std::uint64_t pointer = 0;
    if (!fields[3].empty() && fields[3] != "(nil)") {
      const auto given = fields[3].starts_with("0x") ? any_number(fields[3]) : std::nullopt;
      if (!given) return refuse(fmt::format("pointer {} is not 0x…", quoted(fields[3])));
      pointer = *given;
    }
    const std::string_view action = fields[2];
    if (action == "allocate") return allocate(pointer, event);
    if (action == "free" || action == "deallocate") return free(pointer, event);
    if (action == "allocate failure") {
      event.id = next_id_++;
      event.outcome = ErrorCode::out_of_memory;
      return true;
    }
    return refuse(
        fmt::format("action {} is not known; known: allocate, allocate failure, free, "
                    "deallocate",
                    quoted(action)));
  }

  bool allocate(std::uint64_t pointer, TraceEvent& event) {
    event.id = next_id_++;
    if (event.size == 0) {  // empty blocks may share an address, or have none
      empty_[pointer].push_back(event.id);
      return true;
    }
    if (pointer == 0) return refuse(fmt::format("{} bytes allocated at no address", event.size));
    const auto [live, fresh] = live_.try_emplace(pointer, Live{event.id, lines_.row()});
    if (!fresh) {
      return refuse(
          fmt::format("allocated at the address of the live block of row {}", live->second.row));
    }
    return true;
  }

  bool free(std::uint64_t pointer, TraceEvent& event) {
    event.operation = TraceOperation::free;
    if (const auto live = live_.find(pointer); live != live_.end()) {
      event.id = live->second.id;
      live_.erase(live);
      return true;
    }
    if (const auto empty = empty_.find(pointer); empty != empty_.end() && !empty->second.empty()) {
      event.id = empty->second.back();
      empty->second.pop_back();
      return true;
    }
    event.id = next_id_++;  // never allocated: an unknown free
    return true;
  }

  /// Rows of several threads may stand slightly out of order, and a log may pass midnight.
  std::uint64_t since_start(std::uint64_t time) {
    if (loaded_.trace.events.empty()) start_ = last_ = time;
    if (time + day_ns / 2 < last_ % day_ns) ++days_;
    last_ = time;
    const std::uint64_t now = days_ * day_ns + time;
    return now > start_ ? now - start_ : 0;
  }

  struct Live {
    std::uint64_t id;
    std::uint64_t row;
  };

  Lines lines_;
  const std::string& name_;
  LoadedTrace loaded_;
  InputError error_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> empty_;
  std::unordered_map<std::uint64_t, std::uint32_t> threads_;
  std::uint64_t next_id_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t days_ = 0;
};

}  // namespace

std::expected<LoadedTrace, InputError> parse_rmm_csv(std::string_view text,
                                                     const std::string& name) {
  return Importer(text, name).run();
}

}  // namespace assay::harness
