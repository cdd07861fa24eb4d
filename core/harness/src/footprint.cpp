#include "footprint.hpp"

#include <array>
#include <charconv>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "assay/base/system.hpp"

namespace assay::harness {
namespace {

/// Calls `visit(line)` for each line of a file. Lines longer than the buffer are cut.
template <class Visit>
void each_line(const char* path, Visit visit) noexcept {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  std::array<char, 8192> buffer;
  std::size_t held = 0;
  while (true) {
    const ssize_t got = ::read(fd, buffer.data() + held, buffer.size() - held);
    if (got <= 0) break;
    held += static_cast<std::size_t>(got);
    std::string_view text(buffer.data(), held);
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      visit(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    held = text.size() == buffer.size() ? 0 : text.size();
    std::char_traits<char>::move(buffer.data(), text.data(), held);
  }
  ::close(fd);
}

std::uint64_t number_at(std::string_view& text, int base) noexcept {
  std::uint64_t value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return problem == std::errc{} ? value : 0;
}

/// "7f00-7f10 rw-p ...": the bytes of a private writable mapping, 0 of any other.
std::uint64_t writable_bytes(std::string_view line) noexcept {
  const std::uint64_t begin = number_at(line, 16);
  if (!line.starts_with('-')) return 0;
  line.remove_prefix(1);
  const std::uint64_t end = number_at(line, 16);
  const bool counts = line.size() > 5 && line[2] == 'w' && line[4] == 'p' && end > begin;
  return counts ? end - begin : 0;
}

}  // namespace

Footprint footprint_now() noexcept {
  Footprint now;
  each_line("/proc/self/maps",
            [&](std::string_view line) { now.mapped_bytes += writable_bytes(line); });
  each_line("/proc/self/smaps_rollup", [&](std::string_view line) {
    if (!line.starts_with("Rss:")) return;
    line.remove_prefix(line.find_first_of("0123456789"));
    now.resident_bytes = number_at(line, 10) * 1024;
  });
  if (now.resident_bytes != 0) return now;
  each_line("/proc/self/statm", [&](std::string_view line) {
    line.remove_prefix(line.find(' ') + 1);
    now.resident_bytes = number_at(line, 10) * page_size();
  });
  return now;
}

}  // namespace assay::harness
