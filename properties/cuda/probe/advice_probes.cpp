// Probes of advice and prefetch.
#include <cstring>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "contract/advice.hpp"
#include "probe/probe.hpp"

namespace assay::conformance {
namespace {

using abi::Advise;
using abi::Location;
using abi::LocationType;
using abi::RangeAttribute;

constexpr std::size_t size = 16 * MiB;
constexpr Location device_0{LocationType::device, 0};
constexpr Location the_host{LocationType::host, 0};

void need_concurrent(Run& run) {
  if (!run.session.facts.has(DeviceAttribute::concurrent_managed_access)) {
    run.skip("needs concurrent_managed_access = 1");
  }
}

void p7(Run& run) {
  need_concurrent(run);
  const DevicePointer memory = run.managed(page);
  run.code("invalid advice", advise(run, memory, page, static_cast<Advise>(99), device_0));
  if (ASSAY_ABSENT(run, cuMemAdvise_v2)) return;
  const auto preferred = [&](Location where) {
    return run.cu.cuMemAdvise_v2(memory, page, Advise::set_preferred_location, where);
  };
  run.code("location NONE", preferred({LocationType::none, 0}));
  run.code("a NUMA node that is absent", preferred({LocationType::host_numa, 9999}));
}

/// Pages of the range that this process has mapped, by /proc/self/pagemap; -1: not readable.
std::int64_t present_pages(DevicePointer address) {
  const auto system_page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  std::int64_t present = 0;
  for (std::size_t at = 0; at < size; at += system_page) {
    std::uint64_t entry = 0;
    const auto offset = static_cast<off_t>((address + at) / system_page * sizeof entry);
    if (::pread(file, &entry, sizeof entry, offset) != sizeof entry) {
      present = -1;
      break;
    }
    present += static_cast<std::int64_t>(entry >> 63);
  }
  ::close(file);
  return present;
}

/// Resident kB of the mapping that holds the address, by /proc/self/smaps; -1: not found.
std::int64_t resident_kib(DevicePointer address) {
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long first = 0;
    unsigned long long end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &end) == 2) {
      inside = address >= first && address < end;
    }
    if (inside && line.starts_with("Rss:")) return std::atoll(line.c_str() + 4);
  }
  return -1;
}

void look(Run& run, DevicePointer memory, const std::string& when) {
  std::size_t free = 0;
  std::size_t total = 0;
  run.must(run.cu.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo");
  answer_value(when + ": pages present by pagemap", present_pages(memory));
  answer_value(when + ": KiB resident by smaps", resident_kib(memory));
  answer_value(when + ": KiB free on the device", static_cast<std::int64_t>(free / KiB));
}

void p19(Run& run) {
  need_concurrent(run);
  const abi::Stream stream = run.stream();
  const DevicePointer memory = run.managed(size);
  std::memset(host(memory), 1, size);
  look(run, memory, "after host writes");
  const auto move = [&](Location where) {
    run.must(prefetch(run, memory, size, where, stream), "cuMemPrefetchAsync");
    run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  };
  move(device_0);
  look(run, memory, "after a prefetch to the device");
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  for (std::size_t at = 0; at < size; at += 4 * KiB) (void)read_at(host(memory) + at);
  ::getrusage(RUSAGE_SELF, &after);
  answer_value("host reads: major faults", after.ru_majflt - before.ru_majflt);
  answer_value("host reads: minor faults", after.ru_minflt - before.ru_minflt);
  look(run, memory, "after host reads");
  move(device_0);
  move(the_host);
  look(run, memory, "after a prefetch to the host");
}

void p20(Run& run) {
  need_concurrent(run);
  if (ASSAY_ABSENT(run, cuMemAdvise) || ASSAY_ABSENT(run, cuMemAdvise_v2)) return;
  const DevicePointer memory = run.managed(2 * page);
  run.code("preferred host by ordinal",
           run.cu.cuMemAdvise(memory, page, Advise::set_preferred_location, abi::device_cpu));
  run.code("preferred host by location",
           run.cu.cuMemAdvise_v2(memory + page, page, Advise::set_preferred_location, the_host));
  for (const RangeAttribute each :
       {RangeAttribute::preferred_location, RangeAttribute::preferred_location_type,
        RangeAttribute::preferred_location_id}) {
    for (const bool by_location : {false, true}) {
      int value = -77;
      const Status status = run.cu.cuMemRangeGetAttribute(
          &value, sizeof value, each, by_location ? memory + page : memory, page);
      const std::string step = std::string(by_location ? "by location" : "by ordinal") +
                               ", attribute " + std::to_string(static_cast<unsigned>(each));
      answer(step, status);
      answer_value(step + ": value", value);
    }
  }
}

void p24(Run& run) {
  need_concurrent(run);
  const DevicePointer memory = run.managed(page);
  if (!ASSAY_ABSENT(run, cuMemPrefetchAsync_v2)) {
    run.code("prefetch with flags 1",
             run.cu.cuMemPrefetchAsync_v2(memory, page, device_0, 1, run.stream()));
  }
  if (ASSAY_ABSENT(run, cuMemPrefetchBatchAsync)) return;
  DevicePointer addresses[] = {memory};
  std::size_t sizes[] = {page};
  Location locations[] = {device_0};
  std::size_t indices[] = {0};
  run.code("batch prefetch on the NULL stream",
           run.cu.cuMemPrefetchBatchAsync(addresses, sizes, 1, locations, indices, 1, 0, nullptr));
}

}  // namespace

std::vector<Probe> advice_probes() {
  using enum Start;
  return {
      {"P7", "invalid advice, location NONE, an absent NUMA node", current, p7},
      {"P19", "residency by pagemap, smaps, faults and free memory around prefetch", current, p19},
      {"P20", "does advice by ordinal read back as by location", current, p20},
      {"P24", "prefetch flags 1; batch prefetch on the NULL stream", current, p24},
  };
}

}  // namespace assay::conformance
