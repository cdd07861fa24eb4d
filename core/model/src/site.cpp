#include "site.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <string_view>

namespace assay::cuda::model {

std::string describe(const Site& site) {
  std::string text = site.function;
  text += " (call " + std::to_string(site.call);
  Dl_info where{};
  if (site.caller != nullptr && dladdr(site.caller, &where) != 0 && where.dli_fname != nullptr) {
    std::string_view file = where.dli_fname;
    file = file.substr(file.rfind('/') + 1);
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%zx",
                  static_cast<std::size_t>(static_cast<const char*>(site.caller) -
                                           static_cast<const char*>(where.dli_fbase)));
    text += ", from ";
    text += file;
    text += offset;
  }
  return text + ")";
}

std::string describe_range(std::uint64_t address, std::uint64_t size) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%llx + %llu bytes", static_cast<unsigned long long>(address),
                static_cast<unsigned long long>(size));
  return text;
}

}  // namespace assay::cuda::model
