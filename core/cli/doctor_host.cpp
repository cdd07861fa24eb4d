#include "doctor_host.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include "assay/base/system.hpp"
#include "assay/harness/result_context.hpp"
#include "assay/harness/system_files.hpp"

namespace assay::doctor {
namespace {

namespace fs = std::filesystem;

using harness::contents_of;
using harness::line_of;

std::optional<std::int64_t> number_in(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json number_of(const std::string& path) {
  const auto line = line_of(path);
  return line ? or_null(number_in(*line)) : Json();
}

/// A field of /proc/meminfo, or of a node's, in bytes.
Json meminfo_bytes(const std::optional<std::string>& text, std::string_view name) {
  return or_null(harness::bytes_of_field(text, name));
}

/// The setting that is in force, of a file that lists all.
Json chosen(const std::string& path) {
  return or_null(harness::bracketed(line_of(path)));
}

/// Names in a folder that begin so, in the order of the number behind.
std::vector<std::string> entries(const std::string& folder, std::string_view prefix) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    const auto number = number_in(std::string_view(name).substr(prefix.size()));
    if (number) found.emplace_back(*number, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

Json huge_page_pools(const std::string& root) {
  auto pools = Json::array();
  const std::string folder = root + "/sys/kernel/mm/hugepages";
  for (const std::string& name : entries(folder, "hugepages-")) {
    const auto kib = number_in(std::string_view(name).substr(10));
    pools.push_back({{"page_bytes", *kib * 1024},
                     {"pages", number_of(folder + "/" + name + "/nr_hugepages")},
                     {"free", number_of(folder + "/" + name + "/free_hugepages")}});
  }
  return pools;
}

Json limit(int which) {
  rlimit values{};
  // NOLINTNEXTLINE(bugprone-*): glibc's own type of `which` differs between C and C++
  if (::getrlimit(static_cast<__rlimit_resource>(which), &values) != 0) return {};
  const auto figure = [](rlim_t value) { return value == RLIM_INFINITY ? Json() : Json(value); };
  return {{"soft", figure(values.rlim_cur)}, {"hard", figure(values.rlim_max)}};
}

Json numa_nodes(const std::string& root) {
  auto nodes = Json::array();
  const std::string folder = root + "/sys/devices/system/node";
  for (const std::string& name : entries(folder, "node")) {
    const std::string path = folder + "/" + name;
    const std::int64_t number = *number_in(std::string_view(name).substr(4));
    nodes.push_back({{"node", number},
                     {"cpus", or_null(line_of(path + "/cpulist"))},
                     {"memory_bytes", meminfo_bytes(contents_of(path + "/meminfo"),
                                                    fmt::format("Node {} MemTotal", number))}});
  }
  return nodes;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/// Is boosting of the clock on? Null where the kernel does not tell.
Json boost(const std::string& root) {
  const std::string cpu = root + "/sys/devices/system/cpu";
  const Json off = number_of(cpu + "/intel_pstate/no_turbo");
  if (!off.is_null()) return off == 0;
  const Json on = number_of(cpu + "/cpufreq/boost");
  return on.is_null() ? Json() : Json(on != 0);
}

Json container(const std::string& root) {
  if (fs::exists(root + "/.dockerenv")) return "docker";
  if (fs::exists(root + "/run/.containerenv")) return "podman";
  const auto group = contents_of(root + "/proc/1/cgroup");
  if (!group) return {};
  for (const char* word : {"docker", "kubepods", "lxc", "containerd"}) {
    if (group->find(word) != std::string::npos) return word;
  }
  return "none";
}

Json noise(const char* name, Json value, bool noisy, const char* remedy) {
  return {{"name", name},
          {"value", std::move(value)},
          {"noisy", noisy},
          {"remedy", noisy ? Json(remedy) : Json()}};
}

}  // namespace

Json memory_facts(const std::string& root) {
  const auto meminfo = contents_of(root + "/proc/meminfo");
  const std::string thp = root + "/sys/kernel/mm/transparent_hugepage";
  const std::string vm = root + "/proc/sys/vm";
  const Json overcommit = number_of(vm + "/overcommit_memory");
  const char* const modes[] = {"heuristic", "always", "never"};
  const bool known = overcommit.is_number() && overcommit >= 0 && overcommit <= 2;
  return {
      {"page_bytes", page_size()},
      {"total_bytes", meminfo_bytes(meminfo, "MemTotal")},
      {"available_bytes", meminfo_bytes(meminfo, "MemAvailable")},
      {"transparent_huge_pages",
       {{"enabled", chosen(thp + "/enabled")},
        {"defrag", chosen(thp + "/defrag")},
        {"shmem", chosen(thp + "/shmem_enabled")}}},
      {"huge_page_pools", huge_page_pools(root)},
      {"overcommit", known ? Json(modes[overcommit.get<int>()]) : Json()},
      {"commit_limit_bytes", meminfo_bytes(meminfo, "CommitLimit")},
      {"committed_bytes", meminfo_bytes(meminfo, "Committed_AS")},
      {"max_map_count", number_of(vm + "/max_map_count")},
      {"swap_total_bytes", meminfo_bytes(meminfo, "SwapTotal")},
      {"swap_free_bytes", meminfo_bytes(meminfo, "SwapFree")},
  };
}

Json limit_facts() {
  return {{"locked_memory", limit(RLIMIT_MEMLOCK)},
          {"address_space", limit(RLIMIT_AS)},
          {"data", limit(RLIMIT_DATA)},
          {"stack", limit(RLIMIT_STACK)},
          {"core", limit(RLIMIT_CORE)},
          {"open_files", limit(RLIMIT_NOFILE)}};
}

Json processor_facts(const std::string& root) {
  const Json machine = harness::machine_context(root);
  return {{"model", machine["cpu_model"]},
          {"online", machine["cpus_online"]},
          {"allowed", machine["cpus_allowed"]},
          {"usable", usable_cpus()},
          {"simultaneous_threads", number_of(root + "/sys/devices/system/cpu/smt/active")},
          {"quota", machine["cgroup_cpu_quota"]},
          {"numa_nodes", numa_nodes(root)}};
}

Json noise_facts(const std::string& root) {
  const std::string cpu = root + "/sys/devices/system/cpu";
  const Json governor = or_null(line_of(cpu + "/cpu0/cpufreq/scaling_governor"));
  const Json boosted = boost(root);
  const Json threads = number_of(cpu + "/smt/active");
  const Json random = number_of(root + "/proc/sys/kernel/randomize_va_space");
  const Json balancing = number_of(root + "/proc/sys/kernel/numa_balancing");
  const Json hypervisor = harness::machine_context(root)["hypervisor"];
  const auto load_line = line_of(root + "/proc/loadavg");
  const double load = load_line ? std::strtod(load_line->c_str(), nullptr) : 0;
  const auto meminfo = contents_of(root + "/proc/meminfo");
  const Json total = meminfo_bytes(meminfo, "SwapTotal");
  const Json free = meminfo_bytes(meminfo, "SwapFree");
  const std::int64_t swapped =
      total.is_null() || free.is_null() ? 0 : total.get<std::int64_t>() - free.get<std::int64_t>();
  auto list = Json::array();
  list.push_back(noise("governor", governor, !governor.is_null() && governor != "performance",
                       "cpupower frequency-set -g performance"));
  list.push_back(
      noise("boost", boosted, boosted == true,
            "echo 0 > /sys/devices/system/cpu/cpufreq/boost, or 1 > intel_pstate/no_turbo"));
  list.push_back(noise("simultaneous_threads", threads, threads == 1,
                       "echo off > /sys/devices/system/cpu/smt/control, or pin to one a core"));
  list.push_back(noise("address_randomisation", random, !random.is_null() && random != 0,
                       "setarch -R for one program; several runs average it out"));
  list.push_back(noise("load_1_min", load_line ? Json(load) : Json(), load > 0.5 * usable_cpus(),
                       "wait until other work has ended"));
  list.push_back(noise("virtual_machine", hypervisor,
                       hypervisor != "none" && hypervisor != "unknown",
                       "compare runs of the same machine only, interleaved"));
  const Json boxed = container(root);
  list.push_back(noise("container", boxed, !boxed.is_null() && boxed != "none",
                       "mind its quota of processors and memory"));
  list.push_back(noise("swap_used_bytes", total.is_null() ? Json() : Json(swapped), swapped > 0,
                       "swapoff -a"));
  list.push_back(noise("numa_balancing", balancing, balancing == 1,
                       "echo 0 > /proc/sys/kernel/numa_balancing"));
  return list;
}

Json nvidia_facts(const std::string& root) {
  std::int64_t functions = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root + "/sys/bus/pci/devices", ignored)) {
    const auto vendor = line_of(entry.path() / "vendor");
    const auto kind = line_of(entry.path() / "class");
    // Vendor NVIDIA, class display controller: 0x0300.. (VGA) or 0x0302.. (3D).
    if (vendor == "0x10de" && kind && kind->starts_with("0x03")) ++functions;
  }
  const auto module = line_of(root + "/sys/module/nvidia/version");
  return {{"pci_devices", functions},
          {"kernel_module", or_null(module)},
          {"control_device", fs::exists(root + "/dev/nvidiactl", ignored)},
          {"wsl", fs::exists(root + "/dev/dxg", ignored)}};
}

}  // namespace assay::doctor
