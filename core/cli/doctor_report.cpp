#include "doctor_report.hpp"

#include <cmath>

#include <fmt/format.h>

namespace assay::doctor {
namespace {

/// Bytes as a person reads them.
std::string bytes_text(const Json& bytes) {
  if (!bytes.is_number()) return "unknown";
  const double value = bytes.get<double>();
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  double shown = value;
  while (shown >= 1024 && unit < 5) {
    shown /= 1024;
    ++unit;
  }
  return shown == std::floor(shown) ? fmt::format("{:.0f} {}", shown, units[unit])
                                    : fmt::format("{:.1f} {}", shown, units[unit]);
}

std::string plain(const Json& value) {
  if (value.is_null()) return "unknown";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.dump();
}

std::string row(std::string_view name, const std::string& value) {
  return fmt::format("  {:<22} {}\n", name, value);
}

std::string limit_text(const Json& limit, bool in_bytes) {
  if (limit.is_null()) return "unknown";
  const auto one = [&](const Json& value) {
    if (value.is_null()) return std::string("unlimited");
    return in_bytes ? bytes_text(value) : plain(value);
  };
  const std::string soft = one(limit["soft"]);
  const std::string hard = one(limit["hard"]);
  return soft == hard ? soft : fmt::format("{} (may be raised to {})", soft, hard);
}

Json lack(const std::string& what, const std::string& why, const std::string& get) {
  return {{"what", what}, {"why", why}, {"get", get}};
}

/// How a host without a working driver gets one.
Json lack_of_driver(const Json& driver, const Json& nvidia) {
  const std::string status = driver["status"];
  const std::string why = plain(driver["message"]);
  const std::string without =
      "until then ASSAY_CUDA_DRIVER=<libassay_cuda_model.so> lets everything run on the model";
  if (status == "driver_too_old") {
    return lack("a newer driver", why, "update NVIDIA's driver: 11.8 (branch 520) is the oldest");
  }
  if (status == "not_a_driver") {
    return lack("a CUDA driver", why, "correct the path that --driver or ASSAY_CUDA_DRIVER names");
  }
  if (status == "no_device") {
    return lack("a GPU", why,
                "make one visible: see CUDA_VISIBLE_DEVICES, and nvidia-smi -L; " + without);
  }
  if (status == "no_driver" && !nvidia["kernel_module"].is_null()) {
    return lack("the driver's library, libcuda.so.1", why,
                "the kernel module is loaded, so this is a container without the driver's files: "
                "start it with --gpus all (NVIDIA Container Toolkit), or apt install libcuda1");
  }
  if (status == "no_driver" && nvidia["wsl"] == true) {
    return lack("the driver's library, libcuda.so.1", why,
                "install NVIDIA's driver in Windows; WSL finds it in /usr/lib/wsl/lib");
  }
  if (status == "no_driver" && nvidia["pci_devices"] != 0) {
    return lack("the NVIDIA driver", why,
                "apt install nvidia-driver (Debian, non-free) or nvidia-driver-580-open (Ubuntu), "
                "then restart");
  }
  if (status == "no_driver") {
    return lack("a GPU and its driver", why,
                "no NVIDIA device is visible here: use a host with one; " + without);
  }
  const Json native = driver["error"].is_object() ? driver["error"]["native"] : Json();
  if (native == 34) {
    return lack("a CUDA driver", why, "name libcuda.so.1 of the driver package, not the stub");
  }
  if (native == 803) {
    return lack("a consistent driver", why,
                "library and kernel module are of different versions: restart the host");
  }
  return lack("a working driver", why, "see nvidia-smi and the kernel's log (dmesg)");
}

std::string driver_text(const Json& facts) {
  const Json& driver = facts["driver"];
  const std::string status = driver["status"];
  std::string text = "CUDA driver\n";
  std::string line = status == "ok" ? "usable" : status;
  if (driver["kind"] == "model") {
    line += fmt::format(", a MODEL (profile {}): no GPU, and times mean nothing",
                        plain(driver["profile"]));
  }
  text += row("state", line);
  if (!driver["message"].is_null()) text += row("reason", plain(driver["message"]));
  if (!driver["path"].is_null()) text += row("library", plain(driver["path"]));
  if (driver["version"].is_null()) return text;
  text += row("version", plain(driver["version"]));
  text += row("advice", fmt::format("by {}", plain(driver["advice_abi"])));
  std::string on;
  std::string off;
  for (const auto& [name, present] : driver["features"].items()) {
    std::string& list = present ? on : off;
    list += (list.empty() ? "" : ", ") + name;
  }
  text += row("features", on.empty() ? "none" : on);
  if (!off.empty()) text += row("features missing", off);
  std::string symbols;
  for (const Json& one : driver["missing_symbols"]) {
    symbols += (symbols.empty() ? "" : ", ") + one["symbol"].get<std::string>();
  }
  if (!symbols.empty()) text += row("functions missing", symbols);
  return text;
}

std::string devices_text(const Json& devices) {
  std::string text;
  for (const Json& one : devices) {
    text += fmt::format("device {}\n", one["ordinal"].get<int>());
    if (one.contains("error")) {
      text += row("error", one["error"]);
      continue;
    }
    text += row("name", one["name"]);
    text += row("memory", bytes_text(one["total_bytes"]));
    text += row("compute capability",
                fmt::format("{}, {} multiprocessors", plain(one["compute_capability"]),
                            plain(one["multiprocessors"])));
    text += row("regime", one["regime"]);
    text += row("address", fmt::format("{}, {}", plain(one["pci_bus_id"]), plain(one["uuid"])));
  }
  return text;
}

std::string memory_text(const Json& memory) {
  const Json& thp = memory["transparent_huge_pages"];
  std::string pools;
  for (const Json& one : memory["huge_page_pools"]) {
    pools += fmt::format("{}{} of {} ({} free)", pools.empty() ? "" : ", ", plain(one["pages"]),
                         bytes_text(one["page_bytes"]), plain(one["free"]));
  }
  return "memory\n" + row("total", bytes_text(memory["total_bytes"])) +
         row("available", bytes_text(memory["available_bytes"])) +
         row("page", bytes_text(memory["page_bytes"])) +
         row("transparent huge", fmt::format("{} (defrag {}, shmem {})", plain(thp["enabled"]),
                                             plain(thp["defrag"]), plain(thp["shmem"]))) +
         row("huge page pools", pools.empty() ? "none" : pools) +
         row("overcommit", plain(memory["overcommit"])) +
         row("commit limit",
             fmt::format("{}, {} committed", bytes_text(memory["commit_limit_bytes"]),
                         bytes_text(memory["committed_bytes"]))) +
         row("swap", fmt::format("{}, {} free", bytes_text(memory["swap_total_bytes"]),
                                 bytes_text(memory["swap_free_bytes"]))) +
         row("mappings at most", plain(memory["max_map_count"]));
}

std::string limits_text(const Json& limits) {
  return "limits\n" + row("locked memory", limit_text(limits["locked_memory"], true)) +
         row("address space", limit_text(limits["address_space"], true)) +
         row("data", limit_text(limits["data"], true)) +
         row("stack", limit_text(limits["stack"], true)) +
         row("open files", limit_text(limits["open_files"], false));
}

std::string processor_text(const Json& processor) {
  std::string nodes;
  for (const Json& one : processor["numa_nodes"]) {
    nodes += fmt::format("{}{}: cores {}, {}", nodes.empty() ? "" : "; ", one["node"].get<int>(),
                         plain(one["cpus"]), bytes_text(one["memory_bytes"]));
  }
  return "processor\n" + row("model", plain(processor["model"])) +
         row("cores", fmt::format("{} online, {} usable here ({})", plain(processor["online"]),
                                  plain(processor["usable"]), plain(processor["allowed"]))) +
         row("quota", plain(processor["quota"])) +
         row("NUMA nodes", nodes.empty() ? "unknown" : nodes);
}

std::string noise_text(const Json& noise) {
  std::string text = "noise (what disturbs a measurement)\n";
  for (const Json& one : noise) {
    const std::string value =
        one["name"] == "swap_used_bytes" ? bytes_text(one["value"]) : plain(one["value"]);
    text += row(one["name"].get<std::string>(),
                one["noisy"] ? fmt::format("{}: {}", value, plain(one["remedy"])) : value);
  }
  return text;
}

}  // namespace

Json missing_from(const Json& facts) {
  auto list = Json::array();
  if (facts["driver"]["status"] != "ok") {
    list.push_back(lack_of_driver(facts["driver"], facts["nvidia"]));
  }
  for (const Json& one : facts["allocators"]) {
    if (one["present"] == true) continue;
    list.push_back(lack(one["id"], "its library cannot be preloaded",
                        fmt::format("apt install {}", plain(one["package"]))));
  }
  if (facts["memory"]["transparent_huge_pages"]["enabled"] == "never") {
    list.push_back(lack("transparent huge pages", "they are switched off",
                        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"));
  }
  return list;
}

std::string to_text(const Json& facts) {
  std::string text = driver_text(facts);
  text += devices_text(facts["devices"]);
  text += memory_text(facts["memory"]);
  text += limits_text(facts["limits"]);
  text += processor_text(facts["processor"]);
  text += noise_text(facts["noise"]);
  text += "allocators of others\n";
  for (const Json& one : facts["allocators"]) {
    text += row(one["id"].get<std::string>(),
                one["present"] ? plain(one["library"]) : std::string("absent"));
  }
  text += "missing here\n";
  for (const Json& one : facts["missing"]) {
    text += fmt::format("  {}: {}\n    -> {}\n", plain(one["what"]), plain(one["why"]),
                        plain(one["get"]));
  }
  if (facts["missing"].empty()) text += "  nothing\n";
  return text;
}

}  // namespace assay::doctor
