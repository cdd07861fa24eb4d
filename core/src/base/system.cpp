#include "assay/base/system.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include <unistd.h>

namespace assay {
namespace {

/// The number in a one-line file, or `otherwise` if the file is absent or says "max".
std::uint64_t number_in(const char* path, std::uint64_t otherwise) noexcept {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return otherwise;
  std::uint64_t value = 0;
  const bool read = std::fscanf(file, "%" SCNu64, &value) == 1;
  std::fclose(file);
  return read ? value : otherwise;
}

std::uint64_t mem_available() noexcept {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return 0;
  char line[128];
  std::uint64_t kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) break;
  }
  std::fclose(file);
  return kib * 1024;
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::size_t available_memory() noexcept {
  constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max", unlimited);
  const std::uint64_t current = number_in("/sys/fs/cgroup/memory.current", 0);
  const std::uint64_t in_group = limit == unlimited ? unlimited : limit - std::min(limit, current);
  return static_cast<std::size_t>(std::min(mem_available(), in_group));
}

}  // namespace assay
