#include "suite/observation.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace assay::conformance {
namespace {

using Json = nlohmann::ordered_json;

/// One write each: what was seen before a crash arrives.
void line(const Json& json) {
  std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, left.data(), left.size());
    if (written <= 0) return;  // the parent is gone, and with it whoever would read
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::optional<Expectation::Kind> kind_of(const std::string& name) {
  for (const auto kind : {Expectation::Kind::code, Expectation::Kind::holds,
                          Expectation::Kind::value, Expectation::Kind::signal}) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

bool take(const Json& json, Transcript& into) {
  if (json.contains("step")) {
    const auto kind = kind_of(json.value("kind", ""));
    if (!kind) return false;
    into.observations.push_back(
        {*kind, json["step"].get<std::string>(), json["value"].get<std::int64_t>()});
  } else if (json.contains("note")) {
    into.notes.push_back(json["note"].get<std::string>());
  } else if (json.contains("skipped")) {
    into.skipped = json["skipped"].get<std::string>();
  } else if (json.contains("setup")) {
    into.setup = json["setup"].get<std::string>();
  } else if (json.contains("finished")) {
    into.finished = true;
  } else {
    return false;
  }
  return true;
}

}  // namespace

void say(const Observation& observation) {
  line({{"step", observation.step},
        {"kind", name_of(observation.kind)},
        {"value", observation.value}});
}
void say_note(const std::string& text) {
  line({{"note", text}});
}
void say_skipped(const std::string& why) {
  line({{"skipped", why}});
}
void say_setup_failed(const std::string& what) {
  line({{"setup", what}});
}
void say_finished() {
  line({{"finished", true}});
}

Transcript read_transcript(std::string_view text) {
  Transcript transcript;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const Json json = Json::parse(one, nullptr, false);
    bool understood = false;
    try {
      understood = json.is_object() && take(json, transcript);
    } catch (const nlohmann::json::exception&) {
      understood = false;
    }
    if (!understood && transcript.garbled.empty()) transcript.garbled = one;
  }
  return transcript;
}

}  // namespace assay::conformance
