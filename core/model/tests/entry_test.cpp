// Symbols: which there are, and what cuGetProcAddress gives under which version.
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "model_fixture.hpp"

namespace assay::cuda::model_test {
namespace {

/// Names of the symbols that the library's file defines for others.
std::set<std::string> exported_names() {
  const int fd = open(ASSAY_MODEL_LIBRARY, O_RDONLY | O_CLOEXEC);
  struct stat status{};
  EXPECT_EQ(fstat(fd, &status), 0);
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  const auto* base = static_cast<const char*>(mapped);
  ElfW(Ehdr) header;
  std::memcpy(&header, base, sizeof header);
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  std::memcpy(sections.data(), base + header.e_shoff, sections.size() * sizeof sections[0]);

  std::set<std::string> names;
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    const char* strings = base + sections[section.sh_link].sh_offset;
    for (std::size_t at = 0; at < section.sh_size; at += sizeof(ElfW(Sym))) {
      ElfW(Sym) symbol;
      std::memcpy(&symbol, base + section.sh_offset + at, sizeof symbol);
      if (symbol.st_shndx != SHN_UNDEF) names.insert(strings + symbol.st_name);
    }
  }
  munmap(mapped, size);
  return names;
}

TEST(Symbols, AreTheModelledRowsAndTheMarker) {
  const std::set<std::string> modelled{"required",           "entry",          "uuid",
                                       "pci_bus_id",         "context_id",     "advise_by_ordinal",
                                       "advise_by_location", "tests",          "pools",
                                       "location_pools",     "virtual_memory", "batches"};
  std::set<std::string> expected{model_marker};
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  if (modelled.contains(#need)) expected.insert(#symbol);
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  EXPECT_EQ(exported_names(), expected);
}

TEST(Symbols, LibraryIsNeverNamedAsTheDriver) {
  EXPECT_FALSE(contains(ASSAY_MODEL_LIBRARY, "libcuda.so"));
  EXPECT_EQ(control().abi, model_control_abi);
  EXPECT_EQ(control().size, sizeof(assay_model_control));
}

TEST(Symbols, NewerOnesAreAbsentInAnOlderDriver) {
  in_fresh_process([] {
    EXPECT_NE(driver().cuGetProcAddress_v2, nullptr);
    EXPECT_NE(driver().cuMemAdvise_v2, nullptr);
    EXPECT_NE(driver().cuMemPrefetchAsync_v2, nullptr);
    EXPECT_NE(driver().cuCtxGetId, nullptr);
  });
  const Environment variable(model_profile_variable, "driver_11_8");
  in_fresh_process([] {
    EXPECT_EQ(driver().cuGetProcAddress_v2, nullptr);
    EXPECT_EQ(driver().cuMemAdvise_v2, nullptr);
    EXPECT_EQ(driver().cuMemPrefetchAsync_v2, nullptr);
    EXPECT_EQ(driver().cuCtxGetId, nullptr);
    EXPECT_NE(driver().cuGetProcAddress, nullptr);
    EXPECT_NE(driver().cuMemAdvise, nullptr);
    int version = 0;
    EXPECT_STATUS(0, cuDriverGetVersion(&version));
    EXPECT_EQ(version, 11080);
  });
}

struct Found {
  Status status;
  void* address;
  ProcAddressResult result;
};

Found look_up(const char* base, int version, std::uint64_t flags = proc_address_legacy_stream) {
  Found found{Status::unknown, &found, static_cast<ProcAddressResult>(99)};
  found.status = driver().cuGetProcAddress_v2(base, &found.address, version, flags, &found.result);
  return found;
}

TEST(ProcAddress, GivesTheAbiOfTheVersionAsked) {
  const Found old_advise = look_up("cuMemAdvise", 8000);
  const Found between = look_up("cuMemAdvise", 12010);
  const Found new_advise = look_up("cuMemAdvise", 12020);
  const Found newest = look_up("cuMemAdvise", 13000);
  EXPECT_EQ(old_advise.result, ProcAddressResult::success);
  EXPECT_EQ(old_advise.address, reinterpret_cast<void*>(driver().cuMemAdvise));
  EXPECT_EQ(between.address, old_advise.address);
  EXPECT_EQ(new_advise.address, reinterpret_cast<void*>(driver().cuMemAdvise_v2));
  EXPECT_EQ(newest.address, new_advise.address);
  EXPECT_NE(new_advise.address, old_advise.address);
}

TEST(ProcAddress, EveryRowIsFoundAtItsVersion) {
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters)                   \
  if (driver().symbol != nullptr) {                                                      \
    EXPECT_EQ(look_up(#base, version).address, reinterpret_cast<void*>(driver().symbol)) \
        << #symbol;                                                                      \
  }
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
}

TEST(ProcAddress, UnknownSymbolIsSuccessAndNull) {
  for (const char* name : {"cuNoSuchFunction", "cuMemFree_v2", "cuMemPoolExportPointer", ""}) {
    const Found found = look_up(name, 13000);
    EXPECT_EQ(found.status, Status::success) << name;
    EXPECT_EQ(found.address, nullptr) << name;
    EXPECT_EQ(found.result, ProcAddressResult::symbol_not_found) << name;
  }
  const Found early = look_up("cuMemAdvise", 7050);
  EXPECT_EQ(early.status, Status::success);
  EXPECT_EQ(early.address, nullptr);
  EXPECT_EQ(early.result, ProcAddressResult::version_not_sufficient);
}

TEST(ProcAddress, RefusesWhatTheDriverCannotHave) {
  EXPECT_EQ(look_up("cuInit", 13010).status, Status::invalid_value);
  EXPECT_EQ(look_up("cuInit", 2000, 4).status, Status::invalid_value);
  EXPECT_EQ(look_up("cuInit", 2000, 3).status, Status::invalid_value);
  EXPECT_EQ(look_up(nullptr, 2000).status, Status::invalid_value);
  const Found per_thread = look_up("cuMemcpyAsync", 7000, 2);
  EXPECT_EQ(per_thread.status, Status::success);
  EXPECT_EQ(per_thread.address, nullptr);
}

TEST(ProcAddress, FirstAbiKnowsTheProfilesDriver) {
  const Environment variable(model_profile_variable, "driver_11_8");
  in_fresh_process([] {
    void* found = nullptr;
    EXPECT_STATUS(0, cuGetProcAddress("cuMemAdvise", &found, 11080, 1));
    EXPECT_EQ(found, reinterpret_cast<void*>(driver().cuMemAdvise));
    EXPECT_STATUS(0, cuGetProcAddress("cuCtxGetId", &found, 11080, 1));
    EXPECT_EQ(found, nullptr);
    EXPECT_STATUS(1, cuGetProcAddress("cuMemAdvise", &found, 12020, 1));
  });
}

}  // namespace
}  // namespace assay::cuda::model_test
