#include "assay/harness/result_context.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "assay/base/system.hpp"
#include "assay/harness/system_files.hpp"
#include "build_info.hpp"

extern char** environ;

namespace assay::harness {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* unknown = "unknown";

Json text_or_unknown(const std::optional<std::string>& value) {
  return value && !value->empty() ? *value : unknown;
}

/// The model as x86 names it; arm64 has only two numbers.
Json cpu_model(const std::optional<std::string>& cpuinfo) {
  if (const auto model = field_of(cpuinfo, "model name")) return text_or_unknown(model);
  const auto implementer = field_of(cpuinfo, "CPU implementer");
  const auto part = field_of(cpuinfo, "CPU part");
  if (!implementer || !part) return unknown;
  return fmt::format("implementer {} part {}", *implementer, *part);
}

/// Number of CPUs in a list such as "0-3,8".
std::optional<std::uint64_t> cpus_in(const std::optional<std::string>& list) {
  if (!list) return std::nullopt;
  std::uint64_t count = 0;
  const char* at = list->data();
  const char* const end = at + list->size();
  while (at < end) {
    std::uint64_t first = 0;
    const auto begun = std::from_chars(at, end, first);
    if (begun.ec != std::errc()) return std::nullopt;
    std::uint64_t last = first;
    at = begun.ptr;
    if (at < end && *at == '-') {
      const auto ended = std::from_chars(at + 1, end, last);
      if (ended.ec != std::errc() || last < first) return std::nullopt;
      at = ended.ptr;
    }
    count += last - first + 1;
    if (at < end && *at++ != ',') return std::nullopt;
  }
  return count;
}

Json hypervisor(const std::string& root, const std::optional<std::string>& cpuinfo) {
  if (const auto type = line_of(root + "/sys/hypervisor/type")) return *type;
  const auto flags = field_of(cpuinfo, "flags");
  if (!flags) return unknown;
  if (fmt::format(" {} ", *flags).find(" hypervisor ") == std::string::npos) return "none";
  const auto vendor = line_of(root + "/sys/class/dmi/id/sys_vendor");
  return vendor ? *vendor : "present";
}

/// The path of this process in the hierarchy of `controller` ("" for version 2).
std::optional<std::string> cgroup_path(const std::string& root, std::string_view controller) {
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto names = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const auto wanted = fmt::format(",{},", controller);
    if (names.find(wanted) != std::string::npos) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// Calls `limit_at(folder)` from the process's group up to the root; the first answer wins.
template <class LimitAt>
std::optional<std::string> up_the_groups(std::string path, LimitAt limit_at) {
  while (true) {
    if (auto limit = limit_at(path == "/" ? std::string() : path)) return limit;
    if (path.empty() || path == "/") return std::nullopt;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

/// "quota period" in microseconds as cpu.max has it, "none", or "unknown".
Json cgroup_cpu_quota(const std::string& root) {
  bool readable = false;
  const auto version_2 = [&](const std::string& folder) -> std::optional<std::string> {
    const auto line = line_of(fmt::format("{}/sys/fs/cgroup{}/cpu.max", root, folder));
    readable = readable || line.has_value();
    return line && !line->starts_with("max") ? line : std::nullopt;
  };
  const auto version_1 = [&](const std::string& folder) -> std::optional<std::string> {
    const auto base = fmt::format("{}/sys/fs/cgroup/cpu{}/cpu.cfs_", root, folder);
    const auto quota = line_of(base + "quota_us");
    const auto period = line_of(base + "period_us");
    readable = readable || (quota && period);
    if (!quota || !period || quota->starts_with('-')) return std::nullopt;
    return fmt::format("{} {}", *quota, *period);
  };
  std::optional<std::string> limit;
  if (const auto path = cgroup_path(root, "")) limit = up_the_groups(*path, version_2);
  if (const auto path = cgroup_path(root, "cpu"); path && !limit) {
    limit = up_the_groups(*path, version_1);
  }
  if (limit) return *limit;
  return readable ? "none" : unknown;
}

/// Every variable that changes how an allocator behaves, sorted; "none" if there is none.
std::string malloc_environment() {
  constexpr std::array<std::string_view, 5> prefixes = {"GLIBC_TUNABLES=", "LD_PRELOAD=", "MALLOC_",
                                                        "MIMALLOC_", "TCMALLOC_"};
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (std::ranges::any_of(prefixes, [&](auto prefix) { return text.starts_with(prefix); })) {
      found.emplace_back(text);
    }
  }
  std::ranges::sort(found);
  return found.empty() ? "none" : fmt::format("{}", fmt::join(found, " "));
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string kernel() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {} {}", names.sysname, names.release, names.machine)
                              : unknown;
}

/// Valid UTF-8, whatever the environment held: JSON takes nothing else.
std::string printable(const std::string& text) {
  const auto quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(quoted).get<std::string>();
}

}  // namespace

Json machine_context(const std::string& root) {
  const auto cpuinfo = contents_of(root + "/proc/cpuinfo");
  const auto cpus = cpus_in(line_of(root + "/sys/devices/system/cpu/online"));
  Json context;
  context["cpu_model"] = cpu_model(cpuinfo);
  context["cpus_online"] = cpus ? Json(*cpus) : Json(unknown);
  context["cpus_allowed"] =
      text_or_unknown(field_of(contents_of(root + "/proc/self/status"), "Cpus_allowed_list"));
  const auto memory = bytes_of_field(contents_of(root + "/proc/meminfo"), "MemTotal");
  context["memory_bytes"] = memory ? Json(*memory) : Json(unknown);
  context["thp"] =
      text_or_unknown(bracketed(line_of(root + "/sys/kernel/mm/transparent_hugepage/enabled")));
  context["hypervisor"] = hypervisor(root, cpuinfo);
  context["governor"] =
      text_or_unknown(line_of(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
  context["cgroup_cpu_quota"] = cgroup_cpu_quota(root);
  return context;
}

Json result_context(std::uint64_t seed) {
  Json context;
  context["assay_version"] = build_info::version;
  context["commit"] = build_info::commit;
  context["dirty"] = build_info::dirty;
  context["compiler"] = build_info::compiler;
  context["compiler_flags"] = build_info::compiler_flags;
  context["build_type"] = build_info::build_type;
  context["lto"] = build_info::lto;
  context["sanitizers"] = build_info::sanitizers;
  context["benchmark_library_version"] = build_info::benchmark_library_version;
  context.update(machine_context(""));
  context["page_size"] = page_size();
  context["kernel"] = kernel();
  context["glibc"] = ::gnu_get_libc_version();
  context["malloc_environment"] = printable(malloc_environment());
  context["driver"] = "none";
  context["seed"] = seed;
  context["date"] = utc_now();
  return context;
}

}  // namespace assay::harness
