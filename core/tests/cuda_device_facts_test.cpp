// Device facts, and the regime that follows from them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "assay/cuda/driver.hpp"

namespace assay::cuda {
namespace {

using enum abi::DeviceAttribute;

Result<Ref<Driver>> load(const std::string& name) {
  return Driver::load({fmt::format("{}/lib{}.so", ASSAY_TEST_DRIVERS, name)});
}

TEST(CudaDeviceFacts, AreWhatTheDriverSays) {
  const auto driver = load("complete");
  ASSERT_TRUE(driver);
  const auto read = driver.value()->device_facts(0);
  ASSERT_TRUE(read) << describe(read.error());
  const DeviceFacts& facts = read.value();
  EXPECT_EQ(facts.ordinal, 0);
  EXPECT_EQ(facts.name, "test device");
  EXPECT_EQ(facts.uuid, "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
  EXPECT_EQ(facts.pci_bus_id, "0000:01:00.0");
  EXPECT_EQ(facts.total_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(facts.compute_major, 75);
  EXPECT_EQ(facts.compute_minor, 76);
  EXPECT_EQ(facts.multiprocessors, 16);
  for (const AttributeRow& row : attribute_rows()) {
    EXPECT_EQ(facts.attribute(row.attribute), static_cast<int>(row.attribute)) << row.name;
  }
}

// By its version, or, where the version would allow it, by the driver's answer.
TEST(CudaDeviceFacts, AnAttributeThatTheDriverDoesNotKnowReadsAs0) {
  for (const char* name : {"driver_11_8", "lacks_new_advice"}) {
    const auto driver = load(name);
    ASSERT_TRUE(driver);
    const auto facts = driver.value()->device_facts(0);
    ASSERT_TRUE(facts) << describe(facts.error());
    EXPECT_EQ(facts.value().attribute(mempool_supported_handle_types), 119);
    for (const auto newer : {numa_id, host_numa_id, host_memory_pools_supported}) {
      EXPECT_EQ(facts.value().attribute(newer), 0);
    }
  }
}

TEST(CudaDeviceFacts, AnOrdinalThatIsNotThereIsRefused) {
  const auto driver = load("complete");
  ASSERT_TRUE(driver);
  for (const int ordinal : {-1, 1, 1 << 30}) {
    const auto facts = driver.value()->device_facts(ordinal);
    ASSERT_FALSE(facts) << ordinal;
    EXPECT_EQ(facts.error().code, ErrorCode::invalid_argument);
  }
}

struct RegimeCase {
  int managed, concurrent, pageable, host_tables;
  Regime expected;
};

DeviceFacts facts_with(const RegimeCase& one) {
  DeviceFacts facts;
  const auto set = [&](abi::DeviceAttribute which, int value) {
    for (std::size_t i = 0; i < attribute_count; ++i) {
      if (attribute_rows()[i].attribute == which) facts.attributes[i] = value;
    }
  };
  set(managed_memory, one.managed);
  set(concurrent_managed_access, one.concurrent);
  set(pageable_memory_access, one.pageable);
  set(pageable_memory_access_uses_host_page_tables, one.host_tables);
  return facts;
}

TEST(CudaDeviceFacts, TheRegimeFollowsFromTheAttributes) {
  for (const RegimeCase& one :
       {RegimeCase{0, 0, 0, 0, Regime::none}, RegimeCase{0, 1, 1, 1, Regime::none},
        RegimeCase{1, 0, 0, 0, Regime::exclusive}, RegimeCase{1, 0, 1, 1, Regime::exclusive},
        RegimeCase{1, 1, 0, 0, Regime::concurrent}, RegimeCase{1, 1, 1, 0, Regime::hmm},
        RegimeCase{1, 1, 1, 1, Regime::ats}}) {
    EXPECT_EQ(name_of(regime_of(facts_with(one))), name_of(one.expected))
        << one.managed << one.concurrent << one.pageable << one.host_tables;
  }
}

TEST(CudaDeviceFacts, EveryAttributeIsListedOnce) {
  for (std::size_t i = 0; i < attribute_count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(attribute_rows()[i].attribute, attribute_rows()[j].attribute)
          << attribute_rows()[i].name;
    }
  }
}

}  // namespace
}  // namespace assay::cuda
