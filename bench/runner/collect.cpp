#include "collect.hpp"

#include <cerrno>
#include <csignal>
#include <map>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "assay/harness/process.hpp"
#include "child.hpp"

namespace assay::bench {
namespace {

/// A file without a name that a child inherits by number, so that nothing stays on disk.
class SharedFile {
 public:
  SharedFile() : fd_(::memfd_create("assay-bench-rows", 0)) {}
  ~SharedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::string contents() const {
    std::string text;
    std::string buffer(1 << 16, '\0');
    while (true) {
      const ssize_t got =
          ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
      if (got <= 0) return text;
      text.append(buffer, 0, static_cast<std::size_t>(got));
    }
  }

 private:
  int fd_;
};

/// The last thing a dying child said, for its error rows.
std::string last_line_of(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const auto line_begin = text.rfind('\n');
  constexpr std::size_t most = 300;
  const auto line = text.substr(line_begin == std::string_view::npos ? 0 : line_begin + 1);
  return std::string(line.substr(0, most));
}

std::string ending_of(const harness::ChildResult& child, const Options& options) {
  if (child.succeeded()) return "";
  const bool alarm = child.end == harness::ChildResult::End::signalled && child.code == SIGALRM;
  if (alarm || child.end == harness::ChildResult::End::timed_out) {
    return fmt::format("child hung: no progress for {} s", options.row_timeout_s);
  }
  const std::string said = last_line_of(child.standard_error);
  return fmt::format("child crashed: {}{}{}", child.describe(),
                     said.empty() ? "" : "; it said: ", said);
}

std::chrono::milliseconds limit_for(const Options& options, std::size_t rows) {
  // Each row has its own limit inside the child; this one only catches a child that ignores it.
  constexpr std::int64_t calls_per_row = 4;
  const auto repetitions = static_cast<std::int64_t>(options.repetitions);
  return std::chrono::seconds(options.row_timeout_s *
                              (static_cast<std::int64_t>(rows) * repetitions * calls_per_row + 1));
}

}  // namespace

Collected rows_from_lines(std::string_view lines, std::span<const Row> rows,
                          const std::string& ending) {
  Collected collected;
  std::map<std::string, std::vector<Json>> runs;
  std::string begun;
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    if (end == std::string_view::npos) break;  // cut off while it was written
    const Json message = Json::parse(lines.substr(0, end), nullptr, false);
    lines.remove_prefix(end + 1);
    if (!message.is_object()) continue;
    if (message.contains(skip_key)) collected.skip_reason = message[std::string(skip_key)];
    if (message.contains(begin_key)) begun = message[std::string(begin_key)];
    if (message.contains(row_key)) {
      const Json& row = message[std::string(row_key)];
      runs[row["run_name"].get<std::string>()].push_back(row);
    }
  }
  if (!collected.skip_reason.empty()) return collected;
  for (const Row& row : rows) {
    const auto found = runs.find(row.name);
    if (found != runs.end()) {
      for (Json& run : found->second) run["per_family_instance_index"] = row.instance_index;
      collected.rows.insert(collected.rows.end(), found->second.begin(), found->second.end());
      continue;
    }
    const std::string why = ending.empty() ? "child ended without this row" : ending;
    const std::string where =
        begun.empty() || begun == row.name ? "" : "; not reached, it was in " + begun;
    collected.rows.push_back(error_row(row, fmt::format("{}{}{}", error_prefix, why, where)));
  }
  return collected;
}

Result<Collected> collect(const Options& options, std::span<const Row> rows,
                          const std::function<void(const std::string& line)>& on_stderr_line) {
  const harness::Subject& subject = *rows[0].subject;
  const SharedFile file;
  if (file.fd() < 0) {
    Error error = Error::make(ErrorCode::io, "make a file for the rows of a child");
    error.native = errno;
    return error;
  }
  harness::ChildSpec spec;
  spec.arguments =
      child_arguments(options, harness::this_program(), std::string(subject.id), file.fd());
  spec.timeout = limit_for(options, rows.size());
  spec.on_stderr_line = on_stderr_line;
  if (subject.is_process()) spec.environment.emplace_back("LD_PRELOAD", subject.preload);
  ASSAY_TRY(const auto child, harness::run_child(spec));
  return rows_from_lines(file.contents(), rows, ending_of(child, options));
}

}  // namespace assay::bench
