#include "mutants.hpp"

#ifdef ASSAY_MODEL_BREAKABLE

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

#include "diagnoses.hpp"
#include "immortal.hpp"

namespace assay::cuda::model {

namespace {

void note_asked(const char* rule) {
  static const char* const path = std::getenv("ASSAY_MODEL_ASKED");
  if (path == nullptr) return;
  static Immortal<std::mutex> lock;
  static Immortal<std::set<std::string>> asked;
  const std::scoped_lock guard(*lock);
  if (!(*asked).insert(rule).second) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const std::string line = std::string(rule) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
  ::close(file);
}

}  // namespace

bool broken(const char* rule) noexcept {
  static const char* const named = std::getenv("ASSAY_MODEL_BREAK");
  note_asked(rule);
  return named != nullptr && std::string(named) == rule;
}

bool breaks_nothing() noexcept {
  static const bool unknown = [] {
    const char* const named = std::getenv("ASSAY_MODEL_BREAK");
    if (named == nullptr || *named == '\0') return false;
    std::istringstream rules(rules_text());
    for (std::string line; std::getline(rules, line);) {
      if (line.substr(0, line.find(' ')) == named) return false;
    }
    std::fprintf(stderr, "assay model: ASSAY_MODEL_BREAK: there is no rule '%s'\n", named);
    return true;
  }();
  return unknown;
}

}  // namespace assay::cuda::model

#endif
