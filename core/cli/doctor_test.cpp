// assay doctor, from the outside on drivers good and bad, and its facts on made-up hosts.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/made_up_machine.hpp"
#include "assay/base/system.hpp"
#include "assay/cuda/device_facts.hpp"
#include "assay/harness/process.hpp"
#include "doctor_driver.hpp"
#include "doctor_host.hpp"
#include "doctor_report.hpp"

namespace assay::doctor {
namespace {

namespace fs = std::filesystem;

harness::ChildResult doctor(std::vector<std::string> arguments, const std::string& driver = "") {
  harness::ChildSpec spec;
  spec.arguments = {harness::sibling_program("assay"), "doctor"};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
  spec.environment = {{"ASSAY_CUDA_DRIVER", driver}, {"ASSAY_MODEL_PROFILE", "h200"}};
  spec.timeout = std::chrono::minutes(1);
  return harness::run_child(spec).value();
}

Json report(std::vector<std::string> arguments, const std::string& driver = "") {
  arguments.emplace_back("--json");
  const auto child = doctor(std::move(arguments), driver);
  EXPECT_EQ(child.code, 0) << child.standard_error;
  return Json::parse(child.standard_output, nullptr, false);
}

/// The entry of a list whose `key` is `value`.
Json find(const Json& list, const char* key, const std::string& value) {
  for (const Json& one : list) {
    if (one[key] == value) return one;
  }
  return {};
}

TEST(Doctor, AHostWithoutADriverIsAFindingThatSaysWhatToDo) {
  const Json facts = report({}, "/nonexistent/libcuda.so.1");
  EXPECT_EQ(facts["assay_doctor"], 1);
  EXPECT_EQ(facts["driver"]["status"], "no_driver");
  EXPECT_EQ(facts["driver"]["kind"], "none");
  EXPECT_EQ(facts["driver"]["path"], "/nonexistent/libcuda.so.1");
  EXPECT_TRUE(facts["devices"].empty());
  ASSERT_FALSE(facts["missing"].empty());
  const std::string why = facts["missing"][0]["why"];
  EXPECT_NE(why.find("/nonexistent/libcuda.so.1"), std::string::npos) << why;
  EXPECT_FALSE(facts["missing"][0]["get"].get<std::string>().empty());
}

TEST(Doctor, TheModelIsNamedAsOneWithItsProfile) {
  const Json facts = report({}, ASSAY_MODEL_LIBRARY);
  const Json& driver = facts["driver"];
  EXPECT_EQ(driver["status"], "ok");
  EXPECT_EQ(driver["kind"], "model");
  EXPECT_EQ(driver["profile"], "h200");
  EXPECT_EQ(driver["path"], ASSAY_MODEL_LIBRARY);
  EXPECT_EQ(driver["advice_abi"], "location");
  EXPECT_EQ(driver["features"]["context_id"], true);
  ASSERT_EQ(facts["devices"].size(), 1U);
  EXPECT_EQ(facts["devices"][0]["name"], "MODEL (no GPU)");
  EXPECT_EQ(facts["devices"][0]["attributes"]["managed_memory"], 1);
  EXPECT_EQ(facts["devices"][0]["attributes"].size(), cuda::attribute_count);
  EXPECT_FALSE(facts["devices"][0]["regime"].get<std::string>().empty());
  EXPECT_TRUE(find(facts["missing"], "what", "a GPU and its driver").is_null());

  const auto text = doctor({}, ASSAY_MODEL_LIBRARY);
  EXPECT_NE(text.standard_output.find("a MODEL (profile h200)"), std::string::npos);
}

TEST(Doctor, TheOptionWinsOverTheVariable) {
  const Json facts = report({"--driver", ASSAY_MODEL_LIBRARY}, "/nonexistent/libcuda.so.1");
  EXPECT_EQ(facts["driver"]["kind"], "model");
}

TEST(Doctor, ALibraryThatIsNoDriverIsNamed) {
  const Json facts = report({}, ASSAY_NO_DRIVER);
  EXPECT_EQ(facts["driver"]["status"], "not_a_driver");
  EXPECT_EQ(facts["driver"]["kind"], "none");
  const std::string message = facts["driver"]["message"];
  EXPECT_NE(message.find(ASSAY_NO_DRIVER), std::string::npos) << message;
}

TEST(Doctor, ADriverThatLacksFunctionsNamesThem) {
  const Json facts = report({}, ASSAY_OLD_DRIVER);
  EXPECT_EQ(facts["driver"]["status"], "driver_too_old");
  EXPECT_EQ(facts["driver"]["version"], "13.0");
  EXPECT_EQ(facts["driver"]["missing_symbols"].size(), 2U);
  EXPECT_EQ(find(facts["driver"]["missing_symbols"], "symbol", "cuMemAllocManaged")["need"],
            "required");
  EXPECT_EQ(facts["missing"][0]["what"], "a newer driver");
}

TEST(Doctor, ADriverThatCrashesIsAFindingToo) {
  const Json facts = report({}, ASSAY_CRASHING_DRIVER);
  EXPECT_EQ(facts["driver"]["status"], "driver_error");
  const std::string message = facts["driver"]["message"];
  EXPECT_NE(message.find("signal 6"), std::string::npos) << message;
  EXPECT_EQ(facts["memory"]["page_bytes"], page_size());
}

TEST(Doctor, AModelThatCannotBeConfiguredSaysWhy) {
  harness::ChildSpec spec;
  spec.arguments = {harness::sibling_program("assay-doctor"), "--json"};
  spec.environment = {{"ASSAY_CUDA_DRIVER", ASSAY_MODEL_LIBRARY}, {"ASSAY_MODEL_PROFILE", "nope"}};
  const auto child = harness::run_child(spec).value();
  const Json facts = Json::parse(child.standard_output, nullptr, false);
  ASSERT_FALSE(facts.is_discarded()) << child.standard_error;
  EXPECT_EQ(facts["driver"]["status"], "driver_error");
  const std::string message = facts["driver"]["message"];
  EXPECT_NE(message.find("no readable file 'nope'"), std::string::npos) << message;
}

TEST(Doctor, TheChildThatLoadsTheDriverDiesWithIt) {
  // A library that is a pipe: loading it waits for as long as nobody writes.
  std::string folder = (fs::temp_directory_path() / "assay-doctor-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/libcuda.so.1";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const pid_t doctor = ::fork();
  if (doctor == 0) {
    const std::string program = harness::sibling_program("assay-doctor");
    ::setenv("ASSAY_CUDA_DRIVER", pipe.c_str(), 1);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);  // waits for the reader
  ASSERT_GE(writer, 0);
  ::kill(doctor, SIGTERM);
  int status = 0;
  EXPECT_EQ(::waitpid(doctor, &status, 0), doctor);
  EXPECT_TRUE(WIFSIGNALED(status));
  pollfd reader{writer, 0, 0};
  constexpr int patience_ms = 20'000;  // less than the minute after which nobody reads anyway
  EXPECT_EQ(::poll(&reader, 1, patience_ms), 1) << "the child still reads";
  EXPECT_NE(reader.revents & POLLERR, 0);
  ::close(writer);
  fs::remove_all(folder);
}

TEST(Doctor, TellsTheTruthAboutThisHost) {
  const Json facts = report({}, "/nonexistent/libcuda.so.1");
  EXPECT_EQ(facts["memory"]["page_bytes"], page_size());
  EXPECT_GT(facts["memory"]["total_bytes"], facts["memory"]["available_bytes"]);
  EXPECT_GE(facts["processor"]["usable"], 1);
  EXPECT_TRUE(facts["limits"]["locked_memory"].contains("soft"));
  EXPECT_EQ(facts["allocators"].size(), 3U);
  for (const Json& one : facts["allocators"]) {
    EXPECT_EQ(one["present"], !one["library"].is_null());
    EXPECT_EQ(one["present"] == true, find(facts["missing"], "what", one["id"]).is_null());
  }
}

TEST(Doctor, LimitsAreThoseThatItRunsUnder) {
  harness::ChildSpec spec;
  spec.arguments = {
      "/bin/sh", "-c",
      fmt::format("ulimit -l 64; exec '{}' --json", harness::sibling_program("assay-doctor"))};
  spec.environment = {{"ASSAY_CUDA_DRIVER", "/nonexistent"}};
  const auto child = harness::run_child(spec).value();
  const Json facts = Json::parse(child.standard_output, nullptr, false);
  ASSERT_FALSE(facts.is_discarded()) << child.standard_error;
  EXPECT_EQ(facts["limits"]["locked_memory"]["soft"], 65536);
  EXPECT_TRUE(facts["limits"]["address_space"]["soft"].is_null()) << "unlimited";
}

TEST(Doctor, HelpAndUsage) {
  const auto help = doctor({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* text : {"--json", "--driver", "Exit codes", "Example:"}) {
    EXPECT_NE(help.standard_output.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(doctor({"--no-such-flag"}).code, 2);
  EXPECT_EQ(doctor({"surplus"}).code, 2);
}

using Host = harness::MadeUpMachine;

TEST(DoctorFacts, WhatTheKernelDoesNotSayIsNull) {
  const Host empty;
  const Json memory = memory_facts(empty.root());
  for (const char* key : {"total_bytes", "available_bytes", "overcommit", "commit_limit_bytes",
                          "max_map_count", "swap_total_bytes"}) {
    EXPECT_TRUE(memory[key].is_null()) << key;
  }
  EXPECT_TRUE(memory["huge_page_pools"].empty());
  for (const Json& one : noise_facts(empty.root())) {
    EXPECT_EQ(one["noisy"], false) << one["name"];
    EXPECT_TRUE(one["remedy"].is_null());
  }
  EXPECT_EQ(nvidia_facts(empty.root())["pci_devices"], 0);
  EXPECT_EQ(processor_facts(empty.root())["numa_nodes"].size(), 0U);
}

TEST(DoctorFacts, MemoryIsReadFromTheKernelsFiles) {
  const Host host;
  host.file("/proc/meminfo",
            "MemTotal:       1000 kB\nMemAvailable:    400 kB\nSwapTotal: 30 kB\n"
            "SwapFree: 10 kB\nCommitLimit: 7 kB\nCommitted_AS: 5 kB\n");
  host.file("/proc/sys/vm/overcommit_memory", "2\n");
  host.file("/proc/sys/vm/max_map_count", "65530\n");
  host.file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  host.file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "64\n");
  host.file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n");
  host.file("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
  const Json memory = memory_facts(host.root());
  EXPECT_EQ(memory["total_bytes"], 1000 * 1024);
  EXPECT_EQ(memory["available_bytes"], 400 * 1024);
  EXPECT_EQ(memory["commit_limit_bytes"], 7 * 1024);
  EXPECT_EQ(memory["committed_bytes"], 5 * 1024);
  EXPECT_EQ(memory["overcommit"], "never");
  EXPECT_EQ(memory["transparent_huge_pages"]["enabled"], "madvise");
  ASSERT_EQ(memory["huge_page_pools"].size(), 2U);
  EXPECT_EQ(memory["huge_page_pools"][0]["page_bytes"], 2 << 20);
  EXPECT_EQ(memory["huge_page_pools"][0]["pages"], 64);
  EXPECT_EQ(memory["huge_page_pools"][0]["free"], 3);
  EXPECT_TRUE(memory["huge_page_pools"][1]["free"].is_null());
  host.file("/proc/sys/vm/overcommit_memory", "7\n");
  EXPECT_TRUE(memory_facts(host.root())["overcommit"].is_null());
}

TEST(DoctorFacts, NodesHaveCoresAndMemory) {
  const Host host;
  for (const int node : {0, 1, 10, 2}) {
    const std::string path = fmt::format("/sys/devices/system/node/node{}", node);
    host.file(path + "/cpulist", fmt::format("{}-{}\n", node * 4, node * 4 + 3));
    host.file(path + "/meminfo", fmt::format("Node {} MemTotal:  {} kB\n", node, node + 8));
  }
  host.file("/sys/devices/system/node/possible", "0-10\n");
  const Json nodes = processor_facts(host.root())["numa_nodes"];
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[3]["node"], 10);
  EXPECT_EQ(nodes[3]["cpus"], "40-43");
  EXPECT_EQ(nodes[3]["memory_bytes"], 18 * 1024);
}

TEST(DoctorFacts, NoiseIsRecognised) {
  const Host host;
  host.file("/proc/cpuinfo", "flags : fpu hypervisor sse\n");
  host.file("/proc/loadavg", "9999.50 1.0 1.0 1/2 3\n");
  host.file("/proc/meminfo", "SwapTotal: 30 kB\nSwapFree: 10 kB\n");
  host.file("/proc/sys/kernel/randomize_va_space", "2\n");
  host.file("/proc/sys/kernel/numa_balancing", "1\n");
  host.file("/.dockerenv", "");
  host.file("/sys/devices/system/cpu/smt/active", "1\n");
  host.file("/sys/devices/system/cpu/cpufreq/boost", "1\n");
  host.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  const Json noisy = noise_facts(host.root());
  for (const Json& one : noisy) {
    EXPECT_EQ(one["noisy"], true) << one["name"];
    EXPECT_FALSE(one["remedy"].is_null()) << one["name"];
  }
  EXPECT_EQ(find(noisy, "name", "swap_used_bytes")["value"], 20 * 1024);
  EXPECT_EQ(find(noisy, "name", "container")["value"], "docker");

  host.file("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
  host.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  host.file("/proc/loadavg", "0.00 1.0 1.0 1/2 3\n");
  const Json quieter = noise_facts(host.root());
  for (const char* name : {"boost", "governor", "load_1_min"}) {
    EXPECT_EQ(find(quieter, "name", name)["noisy"], false) << name;
  }
}

/// What would be said of a host without a driver library and these traces of NVIDIA's.
std::string advice_for(const Host& host) {
  Json facts;
  facts["driver"] = {{"status", "no_driver"}, {"message", "gone"}, {"error", nullptr}};
  facts["nvidia"] = nvidia_facts(host.root());
  facts["allocators"] = Json::array();
  facts["memory"] = memory_facts(host.root());
  const Json missing = missing_from(facts);
  return missing.size() == 1 ? missing[0]["get"].get<std::string>() : missing.dump();
}

TEST(DoctorFacts, TheWayToADriverDependsOnWhatIsThere) {
  const Host nothing;
  EXPECT_NE(advice_for(nothing).find("no NVIDIA device is visible"), std::string::npos);
  const Host card;
  card.file("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  card.file("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  card.file("/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
  card.file("/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
  EXPECT_EQ(nvidia_facts(card.root())["pci_devices"], 1);
  EXPECT_NE(advice_for(card).find("apt install nvidia-driver"), std::string::npos);
  card.file("/sys/module/nvidia/version", "580.65.06\n");
  EXPECT_NE(advice_for(card).find("--gpus all"), std::string::npos);
  const Host windows;
  windows.file("/dev/dxg", "");
  EXPECT_NE(advice_for(windows).find("in Windows"), std::string::npos);
}

TEST(DoctorFacts, HugePagesThatAreOffAreMissing) {
  const Host host;
  host.file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  Json facts;
  facts["driver"] = {{"status", "ok"}};
  facts["allocators"] = {{{"id", "jemalloc"}, {"present", false}, {"package", "libjemalloc2"}}};
  facts["memory"] = memory_facts(host.root());
  const Json missing = missing_from(facts);
  ASSERT_EQ(missing.size(), 2U);
  EXPECT_EQ(missing[0]["get"], "apt install libjemalloc2");
  EXPECT_EQ(missing[1]["what"], "transparent huge pages");
}

}  // namespace
}  // namespace assay::doctor
