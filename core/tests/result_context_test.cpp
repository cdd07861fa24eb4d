#include "assay/harness/result_context.hpp"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>
#include <unistd.h>

#include "assay/harness/json_number.hpp"
#include "made_up_machine.hpp"

namespace assay::harness {
namespace {

class Machine : public MadeUpMachine {
 public:
  [[nodiscard]] nlohmann::ordered_json context() const { return machine_context(root()); }
};

TEST(ResultContext, ReadsTheMachineFromTheKernelsFiles) {
  const Machine machine;
  machine.file("proc/cpuinfo",
               "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t: a fma b\n");
  machine.file("proc/meminfo", "MemTotal:       1024 kB\nMemFree: 3 kB\n");
  machine.file("proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,7\n");
  machine.file("proc/self/cgroup", "0::/a/b\n");
  machine.file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  machine.file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  machine.file("sys/devices/system/cpu/online", "0-3,8,10-11\n");
  machine.file("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  machine.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const auto context = machine.context();
  EXPECT_EQ(context["cpu_model"], "Some CPU @ 2 GHz");
  EXPECT_EQ(context["memory_bytes"], 1024u * 1024u);
  EXPECT_EQ(context["cpus_allowed"], "0-2,7");
  EXPECT_EQ(context["cpus_online"], 7u);
  EXPECT_EQ(context["governor"], "powersave");
  EXPECT_EQ(context["thp"], "madvise");
  EXPECT_EQ(context["hypervisor"], "none");
  EXPECT_EQ(context["cgroup_cpu_quota"], "150000 100000") << "the parent's limit holds too";
}

TEST(ResultContext, ReadsTheOlderGroupsAndTheOtherArchitecture) {
  const Machine machine;
  machine.file("proc/cpuinfo", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n");
  machine.file("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n");
  machine.file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  machine.file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.context()["cpu_model"], "implementer 0x41 part 0xd0c");
  EXPECT_EQ(machine.context()["cgroup_cpu_quota"], "none");
  machine.file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(machine.context()["cgroup_cpu_quota"], "50000 100000");
}

void expect_all_unknown(const nlohmann::ordered_json& context) {
  EXPECT_FALSE(context.empty());
  for (const auto& [key, value] : context.items()) EXPECT_EQ(value, "unknown") << key;
}

TEST(ResultContext, SaysUnknownOfWhatIsAbsentOrSpoilt) {
  const Machine bare;
  expect_all_unknown(bare.context());
  bare.file("sys/devices/system/cpu/online", "3-1\n");
  bare.file("proc/meminfo", "MemTotal: lots kB\n");
  bare.file("sys/kernel/mm/transparent_hugepage/enabled", "madvise\n");
  expect_all_unknown(bare.context());
}

TEST(ResultContext, HoldsWhatAComparisonNeedsAndNoHostName) {
  ::setenv("MALLOC_ASSAY_TEST_", "b\xff", 1);  // not UTF-8: it must not break the document
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1", 1);
  const auto context = result_context(42);
  ::unsetenv("MALLOC_ASSAY_TEST_");
  ::unsetenv("GLIBC_TUNABLES");
  for (const char* key : {"assay_version",
                          "commit",
                          "dirty",
                          "compiler",
                          "compiler_flags",
                          "build_type",
                          "sanitizers",
                          "benchmark_library_version",
                          "cpu_model",
                          "cpus_online",
                          "cpus_allowed",
                          "memory_bytes",
                          "thp",
                          "hypervisor",
                          "governor",
                          "cgroup_cpu_quota",
                          "page_size",
                          "kernel",
                          "glibc",
                          "malloc_environment",
                          "driver",
                          "seed",
                          "date"}) {
    ASSERT_TRUE(context.contains(key)) << key;
    EXPECT_TRUE(context[key].is_string() ? !context[key].get<std::string>().empty()
                                         : context[key].is_number_unsigned())
        << key;
  }
  EXPECT_EQ(context["seed"], 42u);
  EXPECT_EQ(context["page_size"], static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_NE(context["malloc_environment"].get<std::string>().find(
                "GLIBC_TUNABLES=glibc.malloc.arena_max=1 "),
            std::string::npos);
  EXPECT_NO_THROW((void)context.dump());
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  for (const auto& [key, value] : context.items()) {
    EXPECT_FALSE(key == "host_name" || key == "hostname");
    EXPECT_NE(value, std::string(host)) << key;
  }
}

// fault:B-35
TEST(JsonNumber, NonFiniteBecomesNullAndIsFlagged) {
  nlohmann::ordered_json row;
  put_number(row, "fine", 1.5);
  EXPECT_FALSE(row.contains("non_finite"));
  put_number(row, "rate", std::numeric_limits<double>::infinity());
  put_number(row, "ratio", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(row.dump(), R"({"fine":1.5,"rate":null,"non_finite":["rate","ratio"],"ratio":null})");
  EXPECT_TRUE(json_number(-std::numeric_limits<double>::infinity()).is_null());
}

}  // namespace
}  // namespace assay::harness
