#include "rules.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "configuration.hpp"
#include "context.hpp"
#include "diagnoses.hpp"
#include "immortal.hpp"
#include "mutants.hpp"
#include "process.hpp"

namespace assay::cuda::model {

namespace {

struct RuleText {
  const char* id;
  const char* source;
  const char* text;
};

constexpr std::array<RuleText, rule_count> rule_texts{{
#define ASSAY_MODEL_RULE(id, source, text) {#id, source, text},
#include "batch_rules.def"
#include "pool_rules.def"
#include "rules.def"
#include "stream_rules.def"
#include "virtual_rules.def"
#undef ASSAY_MODEL_RULE
}};

constinit std::array<std::atomic<std::uint64_t>, rule_count> met{};

/// Texts stay where they are (a deque) until they are forgotten: the control table gives pointers.
struct Diagnoses {
  std::mutex mutex;
  std::deque<std::string> lines;
};
Diagnoses& diagnoses() {
  static Immortal<Diagnoses> all;
  return *all;
}

std::size_t index_of(Rule rule) {
  return static_cast<std::size_t>(rule);
}

}  // namespace

Status answer(Rule rule, Status status) noexcept {
  met[index_of(rule)].fetch_add(1, std::memory_order_relaxed);
  if (ASSAY_MODEL_BROKEN(id_of(rule))) {  // what is refused succeeds, what is permitted is refused
    return status == Status::success ? Status::invalid_value : Status::success;
  }
  return status;
}

namespace {

void record(Rule rule, const std::string& text) {
  if (ASSAY_MODEL_BROKEN(id_of(rule))) return;
  const std::string line = std::string(id_of(rule)) + ": " + text;
  std::fprintf(stderr, "assay model: %s\n", line.c_str());
  {
    Diagnoses& all = diagnoses();
    std::unique_lock lock(all.mutex, std::defer_lock);
    // A thread that is not in the child may have held the lock when the parent forked.
    if (in_forked_child() ? lock.try_lock() : (lock.lock(), true)) all.lines.push_back(line);
  }
  if (strict()) std::abort();
}

}  // namespace

void diagnose(Rule rule, std::string text) noexcept {
  answer(rule, Status::success);
  record(rule, text);
}

Status refuse(Rule rule, Status status, const std::string& what) noexcept {
  const Site* const call = this_thread().call;
  record(rule, call == nullptr ? what : describe(*call) + " " + what);
  return answer(rule, status);
}

std::uint64_t times_met(Rule rule) noexcept {
  return met[index_of(rule)].load(std::memory_order_relaxed);
}

const char* id_of(Rule rule) noexcept {
  return rule_texts[index_of(rule)].id;
}

std::uint64_t diagnosis_count() noexcept {
  Diagnoses& all = diagnoses();
  const std::scoped_lock lock(all.mutex);
  return all.lines.size();
}

const char* diagnosis_text(std::uint64_t index) noexcept {
  Diagnoses& all = diagnoses();
  const std::scoped_lock lock(all.mutex);
  return index < all.lines.size() ? all.lines[index].c_str() : nullptr;
}

void forget_diagnoses() noexcept {
  Diagnoses& all = diagnoses();
  const std::scoped_lock lock(all.mutex);
  all.lines.clear();
}

const char* rules_text() {
  static Immortal<std::string> text([] {
    std::string lines;
    for (const RuleText& rule : rule_texts) {
      lines += std::string(rule.id) + " [" + rule.source + "] " + rule.text + "\n";
    }
#ifdef ASSAY_MODEL_BREAKABLE
#define ASSAY_MODEL_BEHAVIOUR(id, text) lines += #id " [model] else: " text "\n";
#include "behaviours.def"
#undef ASSAY_MODEL_BEHAVIOUR
#endif
    return lines;
  }());
  return (*text).c_str();
}

}  // namespace assay::cuda::model
