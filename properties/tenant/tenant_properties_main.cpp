// tenant-properties: the quota keeps every property, and each mutant is caught by its own.
#include <array>
#include <cstdio>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "assay/backing/make_backing.hpp"
#include "checking_upstream.hpp"
#include "properties.hpp"

namespace assay::tenant {

std::span<const TenantProperty> tenant_properties() noexcept {
  static constexpr std::array all = {
      TenantProperty{"account_follows_the_model", "charged is what is held; only excess is refused",
                     account_follows_the_model},
      TenantProperty{"limit_holds_under_threads", "four threads never hold more than the limit",
                     limit_holds_under_threads},
      TenantProperty{"restored_after_every_failure", "the k-th call failing leaves no charge",
                     restored_after_every_failure},
  };
  return all;
}

namespace {

constexpr std::string_view usage =
    "usage: tenant-properties [--leaf SPEC] [NAME]\n"
    "Runs NAME, a property (it must hold for the quota) or a mutant (its property must catch it),\n"
    "or all of them.\n"
    "  --list       names them\n"
    "  --leaf SPEC  the quota stands on this backing, such as managed, pinned or device (the "
    "driver\n"
    "               is that of ASSAY_CUDA_DRIVER); its properties only, no mutants\n"
    "exit codes: 0 good, 1 a property failed or a mutant lives, 2 usage, 70 internal error\n"
    "example: tenant-properties refuses_at_equality\n";

bool holds(const TenantProperty& property) {
  const auto fault = property.find_fault(make_quota);
  fmt::print("{}: {}\n", property.name, fault ? "FAIL" : "pass");
  if (fault) fmt::print("{}\n", *fault);
  return !fault;
}

bool killed(const AccountMutant& mutant) {
  for (const TenantProperty& property : tenant_properties()) {
    if (property.name != mutant.killed_by) continue;
    const auto fault = property.find_fault(mutant.make);
    fmt::print("mutant {} ({}): {}\n", mutant.name, mutant.flaw,
               fault ? "killed by " + std::string(property.name) : "LIVES");
    return fault.has_value();
  }
  fmt::print("mutant {}: no property {}\n", mutant.name, mutant.killed_by);
  return false;
}

int run(std::string_view name) {
  bool found = false;
  bool good = true;
  for (const TenantProperty& property : tenant_properties()) {
    if (!name.empty() && name != property.name) continue;
    found = true;
    good = holds(property) && good;
  }
  for (const AccountMutant& mutant : account_mutants()) {
    if (CheckingUpstream::leaf || (!name.empty() && name != mutant.name)) continue;
    found = true;
    good = killed(mutant) && good;
  }
  if (!found) {
    fmt::print(stderr, "tenant-properties: no property or mutant '{}'\n{}", name, usage);
    return 2;
  }
  return good ? 0 : 1;
}

/// Makes the leaf that every account stands on; an exit code if it cannot be made.
int stand_on(std::string_view spec) {
  auto made = make_backing(spec);
  if (!made) {
    fmt::print(stderr, "tenant-properties: --leaf {}\n", made.error().describe());
    return 2;
  }
  CheckingUpstream::leaf = *std::move(made);
  CheckingUpstream::page = CheckingUpstream::leaf->info().granularity;
  return 0;
}

int list() {
  for (const TenantProperty& property : tenant_properties()) {
    fmt::print("{}  {}\n", property.name, property.goal);
  }
  for (const AccountMutant& mutant : account_mutants()) {
    fmt::print("{}  mutant: {}; killed by {}\n", mutant.name, mutant.flaw, mutant.killed_by);
  }
  return 0;
}

}  // namespace
}  // namespace assay::tenant

int main(int count, char** arguments) {
  try {
    if (count > 2 && std::string_view(arguments[1]) == "--leaf") {
      if (const int wrong = assay::tenant::stand_on(arguments[2]); wrong != 0) return wrong;
      count -= 2;
      arguments += 2;
    }
    const std::string_view first = count > 1 ? arguments[1] : "";
    if (first == "--help") {
      fmt::print("{}", assay::tenant::usage);
      return 0;
    }
    if (first == "--list") return assay::tenant::list();
    if (count > 2 || first.starts_with("-")) {
      fmt::print(stderr, "{}", assay::tenant::usage);
      return 2;
    }
    const int code = assay::tenant::run(first);
    assay::tenant::CheckingUpstream::leaf = {};
    return code;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tenant-properties: internal error: {}\n", error.what());
    return 70;
  }
}
