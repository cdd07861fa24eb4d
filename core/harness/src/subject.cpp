#include "assay/harness/subject.hpp"

#include <array>
#include <cstdlib>

#include <dlfcn.h>

namespace assay::harness {

namespace subject_list {
#define ASSAY_SUBJECT(function) const Subject& function();
#include "../subjects/manifest.def"
#undef ASSAY_SUBJECT
}  // namespace subject_list

std::string_view name_of(Origin origin) noexcept {
  switch (origin) {
    case Origin::assay: return "assay";
    case Origin::system: return "system";
    case Origin::foreign: return "foreign";
    case Origin::mutant: return "mutant";
    case Origin::demo: return "demo";
  }
  return "";
}

std::span<const Subject* const> subjects() noexcept {
  static const std::array all = {
#define ASSAY_SUBJECT(function) &subject_list::function(),
#include "../subjects/manifest.def"
#undef ASSAY_SUBJECT
  };
  return all;
}

const Subject* find_subject(std::string_view id) noexcept {
  for (const Subject* subject : subjects()) {
    if (subject->id == id) return subject;
  }
  return nullptr;
}

Result<std::string_view> prove_preload(const Subject& subject) noexcept {
  // The address of malloc as this program resolves it, not dlsym's: TBB's dlsym yields glibc's.
  Dl_info info{};
  void* const function = reinterpret_cast<void*>(&std::malloc);
  if (::dladdr(function, &info) == 0 || info.dli_fname == nullptr) {
    return Error::make(ErrorCode::not_supported, "prove the preload", "dladdr");
  }
  const std::string_view path = info.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  // libjemalloc.so.2 may resolve to a longer version of the same name.
  const std::string_view stem = subject.preload.substr(0, subject.preload.find(".so"));
  if (!name.starts_with(stem)) {
    return Error::make(ErrorCode::not_supported, "preload", "the C library");
  }
  return path;
}

}  // namespace assay::harness
