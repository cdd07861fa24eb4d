// What a person sees: the table on standard output, progress on standard error.
#pragma once

#include <chrono>
#include <string>

#include "row_json.hpp"

namespace assay::bench {

/// The table of results: a header, then a line for each row.
class Table {
 public:
  explicit Table(std::span<const Row> rows);
  void print(const Json& row) const;

 private:
  std::size_t width_;
};

/// Progress: one updating line on a terminal, else a plain line for each subject.
class Progress {
 public:
  explicit Progress(std::size_t subjects);
  void begin(std::string_view subject, std::size_t rows);
  void said(const std::string& line) const;
  void end(std::size_t failed);

 private:
  bool terminal_;
  std::size_t subjects_;
  std::size_t number_ = 0;
  std::string subject_;
  std::size_t rows_ = 0;
  std::chrono::steady_clock::time_point begun_{};
};

}  // namespace assay::bench
