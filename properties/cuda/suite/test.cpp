#include "suite/test.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "contract/groups.hpp"
#include "suite/codes.hpp"

namespace assay::conformance {

std::string_view name_of(Source source) noexcept {
  constexpr std::string_view names[] = {"[hdr]", "[hip]", "[lup]", "[uvm]",
                                        "[doc]", "[iss]", "[?]",   "[model]"};
  return names[static_cast<std::size_t>(source)];
}

std::string_view name_of(Expectation::Kind kind) noexcept {
  constexpr std::string_view names[] = {"code", "holds", "value", "signal"};
  return names[static_cast<std::size_t>(kind)];
}

bool allows(const Expectation& expectation, std::int64_t seen) noexcept {
  const auto& allowed = expectation.allowed;
  return allowed.empty() || std::find(allowed.begin(), allowed.end(), seen) != allowed.end();
}

std::string spell(Expectation::Kind kind, std::int64_t seen) {
  switch (kind) {
    case Expectation::Kind::code: return spell_code(static_cast<std::uint32_t>(seen));
    case Expectation::Kind::holds: return seen != 0 ? "true" : "false";
    case Expectation::Kind::value: return fmt::format("{}", seen);
    case Expectation::Kind::signal:
      if (seen == 0) return "no signal";
      if (seen == SIGSEGV) return "SIGSEGV";
      if (seen == SIGBUS) return "SIGBUS";
      return fmt::format("signal {}", seen);
  }
  return "";
}

Expectation code(const char* step, std::vector<std::int64_t> allowed, Source source) {
  return {Expectation::Kind::code, step, std::move(allowed), source};
}
Expectation succeeds(const char* step, Source source) {
  return code(step, {0}, source);
}
Expectation holds(const char* step, Source source) {
  return {Expectation::Kind::holds, step, {1}, source};
}
Expectation value(const char* step, std::vector<std::int64_t> allowed, Source source) {
  return {Expectation::Kind::value, step, std::move(allowed), source};
}
Expectation faults(const char* step, Source source) {
  return {Expectation::Kind::signal, step, {SIGSEGV, SIGBUS}, source};
}
Expectation touches(const char* step, Source source) {
  return {Expectation::Kind::signal, step, {0}, source};
}
Expectation recorded(Expectation::Kind kind, const char* step) {
  return {kind, step, {}, Source::unsure};
}

namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Needs operator+(Needs left, const Needs& right) {
  if (right.start != Start::current) left.start = right.start;
  append(left.attributes, right.attributes);
  append(left.features, right.features);
  append(left.regimes, right.regimes);
  if (right.version_least != 0) left.version_least = right.version_least;
  if (right.version_below != 0) left.version_below = right.version_below;
  if (right.model_only != nullptr) left.model_only = right.model_only;
  if (right.driver_only != nullptr) left.driver_only = right.driver_only;
  return left;
}

Needs from(Start start) {
  Needs needs;
  needs.start = start;
  return needs;
}
Needs with(DeviceAttribute attribute) {
  Needs needs;
  needs.attributes.push_back({attribute, true});
  return needs;
}
Needs without(DeviceAttribute attribute) {
  Needs needs;
  needs.attributes.push_back({attribute, false});
  return needs;
}
Needs having(cuda::Feature feature) {
  Needs needs;
  needs.features.push_back(feature);
  return needs;
}
Needs in(std::vector<cuda::Regime> regimes) {
  Needs needs;
  needs.regimes = std::move(regimes);
  return needs;
}
Needs since(int version) {
  Needs needs;
  needs.version_least = version;
  return needs;
}
Needs before(int version) {
  Needs needs;
  needs.version_below = version;
  return needs;
}
Needs model_only(const char* why) {
  Needs needs;
  needs.model_only = why;
  return needs;
}
Needs null_out_pointer() {
  return model_only("a null out-pointer may crash a driver");
}

Test answers(const char* id, const char* states, std::vector<std::int64_t> allowed, Source source,
             Call call, Needs needs) {
  return {id,      states, std::move(needs), {code("status", std::move(allowed), source)},
          nullptr, call};
}

const Tests& all_tests() {
  static const Tests tests = [] {
    Tests all;
#define ASSAY_CONFORMANCE_GROUP(name)                               \
  {                                                                 \
    Tests group = name();                                           \
    std::move(group.begin(), group.end(), std::back_inserter(all)); \
  }
#include "contract/groups.def"
#undef ASSAY_CONFORMANCE_GROUP
    return all;
  }();
  return tests;
}

const Test* find_test(std::string_view id) noexcept {
  for (const Test& test : all_tests()) {
    if (id == test.id) return &test;
  }
  return nullptr;
}

std::string group_of(const Test& test) {
  const std::string_view id = test.id;
  return std::string(id.substr(0, id.find('.')));
}

}  // namespace assay::conformance
