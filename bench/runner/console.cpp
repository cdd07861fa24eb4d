#include "console.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace assay::bench {
namespace {

std::string time_of(const Json& row, const char* key) {
  const Json& value = row[key];
  if (!value.is_number()) return "-";
  return fmt::format("{:.4g} {}", value.get<double>(), row["time_unit"].get<std::string>());
}

}  // namespace

Table::Table(std::span<const Row> rows) : width_(9) {
  for (const Row& row : rows) width_ = std::max(width_, row.name.size());
  fmt::print("{:<{}} {:>15} {:>15} {:>12}\n", "Benchmark", width_, "Time", "CPU", "Iterations");
}

void Table::print(const Json& row) const {
  const auto name = row["name"].get<std::string>();
  if (row.contains("error_message")) {
    const auto message = row["error_message"].get<std::string>();
    if (message.starts_with(skip_prefix)) {
      fmt::print("{:<{}} {}\n", name, width_, message.substr(skip_prefix.size()));
    } else {
      fmt::print("{:<{}} ERROR: {}\n", name, width_, message);
    }
    return;
  }
  fmt::print("{:<{}} {:>15} {:>15} {:>12} {}\n", name, width_, time_of(row, "real_time"),
             time_of(row, "cpu_time"), row["iterations"].get<std::int64_t>(),
             row.value("label", std::string()));
}

Progress::Progress(std::size_t subjects)
    : terminal_(::isatty(STDERR_FILENO) == 1), subjects_(subjects) {}

void Progress::begin(std::string_view subject, std::size_t rows) {
  ++number_;
  subject_ = subject;
  rows_ = rows;
  begun_ = std::chrono::steady_clock::now();
  if (!terminal_) return;
  fmt::print(stderr, "\r\033[K[{}/{}] {}: {} rows", number_, subjects_, subject_, rows_);
  std::fflush(stderr);
}

void Progress::said(const std::string& line) const {
  fmt::print(stderr, "{}{}: {}\n", terminal_ ? "\r\033[K" : "", subject_, line);
}

void Progress::end(std::size_t failed) {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun_;
  const bool last = number_ == subjects_;
  const std::string line =
      fmt::format("[{}/{}] {}: {} rows in {:.1f} s{}", number_, subjects_, subject_, rows_,
                  spent.count(), failed == 0 ? "" : fmt::format(", {} FAILED", failed));
  if (!terminal_) {
    fmt::print(stderr, "{}\n", line);
  } else if (failed != 0 || last) {
    fmt::print(stderr, "\r\033[K{}\n", last && failed == 0 ? "" : line);
  }
  std::fflush(stderr);
}

}  // namespace assay::bench
