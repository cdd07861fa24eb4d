// Rows: a family, a subject and a size each; which of them are meant.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <regex.h>

#include "assay/base/result.hpp"
#include "assay/harness/subject.hpp"
#include "family.hpp"

namespace assay::bench {

/// What a benchmark program offers.
struct Offer {
  std::span<const harness::Subject* const> subjects;
  std::span<const Family* const> families;
};

/// One benchmark.
struct Row {
  const Family* family = nullptr;
  const harness::Subject* subject = nullptr;
  std::size_t size_bytes = 0;
  std::size_t family_index = 0;
  std::size_t instance_index = 0;  ///< within the family, over every subject
  std::string name;                ///< family/backing:<id>/size:<n>
};

/// Every row of these subjects, subject by subject. Starts no process and makes no backing.
[[nodiscard]] std::vector<Row> rows_of(const Offer& offer,
                                       std::span<const harness::Subject* const> subjects,
                                       Scope scope);

/// A filter as Google Benchmark reads it: "all" or "" for everything, a leading '-' negates.
class RowFilter {
 public:
  /// **Errors** parse: not a POSIX extended regular expression; `why` says what is wrong.
  static Result<RowFilter> make(const std::string& expression, std::string& why);

  [[nodiscard]] bool matches(const std::string& name) const;

 private:
  struct Free {
    void operator()(regex_t* expression) const noexcept;
  };
  std::unique_ptr<regex_t, Free> expression_;  ///< null: everything
  bool negated_ = false;
};

/// Is the library that a subject needs installed: the one that replaces malloc, or a CUDA driver?
/// True for every other subject. Looks where the loader looks, and runs nothing of it.
[[nodiscard]] bool is_present(const harness::Subject& subject);

/// Why a subject that is not present was skipped, and what to do about it.
[[nodiscard]] std::string how_to_get(const harness::Subject& subject);

}  // namespace assay::bench
