#include "rows.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "assay/harness/driver_facts.hpp"

namespace assay::bench {
namespace {

namespace fs = std::filesystem;

#ifdef ASSAY_SANITIZED
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

std::vector<std::size_t> sizes_of(const SizeRange& range, Scope scope) {
  const bool full = scope == Scope::full;
  const std::size_t last = full ? range.last_full : range.last;
  std::vector<std::size_t> sizes;
  for (std::size_t size = range.first; size <= last; size *= full ? 2 : 4) sizes.push_back(size);
  return sizes;
}

/// The folders in which the loader looks for a bare name: LD_LIBRARY_PATH and its own.
std::vector<fs::path> search_folders() {
  void* const self = ::dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<std::max_align_t> storage(size.dls_size / sizeof(std::max_align_t) + 1);
  auto* const info = reinterpret_cast<Dl_serinfo*>(storage.data());
  std::vector<fs::path> folders;
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 &&
      ::dlinfo(self, RTLD_DI_SERINFO, info) == 0) {
    for (unsigned i = 0; i < info->dls_cnt; ++i)
      folders.emplace_back(info->dls_serpath[i].dls_name);
  }
  ::dlclose(self);
  return folders;
}

/// Does the loader's cache hold this name? Its names are text between zero bytes.
bool in_loader_cache(std::string_view library) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string cache{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::string wanted(1, '\0');
  wanted.append(library).push_back('\0');
  return cache.find(wanted) != std::string::npos;
}

}  // namespace

std::vector<Row> rows_of(const Offer& offer, std::span<const harness::Subject* const> subjects,
                         Scope scope) {
  std::vector<Row> rows;
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    for (std::size_t f = 0; f < offer.families.size(); ++f) {
      const Family& family = *offer.families[f];
      const auto sizes = sizes_of(family.sizes, scope);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        rows.push_back(
            {.family = &family,
             .subject = subjects[s],
             .size_bytes = sizes[i],
             .family_index = f,
             .instance_index = s * sizes.size() + i,
             .name = fmt::format("{}/backing:{}/size:{}", family.name, subjects[s]->id, sizes[i])});
      }
    }
  }
  return rows;
}

void RowFilter::Free::operator()(regex_t* expression) const noexcept {
  ::regfree(expression);
  delete expression;
}

Result<RowFilter> RowFilter::make(const std::string& expression, std::string& why) {
  RowFilter filter;
  if (expression.empty() || expression == "all") return filter;
  filter.negated_ = expression.starts_with('-');
  auto compiled = std::make_unique<regex_t>();
  const int failed = ::regcomp(compiled.get(), expression.c_str() + (filter.negated_ ? 1 : 0),
                               REG_EXTENDED | REG_NOSUB);
  if (failed != 0) {
    char text[256];
    ::regerror(failed, compiled.get(), text, sizeof text);
    why = text;
    return Error::make(ErrorCode::parse, "read the filter");
  }
  filter.expression_.reset(compiled.release());
  return filter;
}

bool RowFilter::matches(const std::string& name) const {
  if (!expression_) return true;
  const bool found = ::regexec(expression_.get(), name.c_str(), 0, nullptr, 0) == 0;
  return found != negated_;
}

bool is_present(const harness::Subject& subject) {
  if (subject.needs_driver) return harness::driver_is_present();
  if (!subject.is_process()) return true;
  if (sanitized) return false;  // a sanitizer's own malloc cannot be replaced
  if (in_loader_cache(subject.preload)) return true;
  for (const fs::path& folder : search_folders()) {
    std::error_code ignored;
    if (fs::exists(folder / subject.preload, ignored)) return true;
  }
  return false;
}

std::string how_to_get(const harness::Subject& subject) {
  if (subject.needs_driver) return harness::why_no_driver(ErrorCode::no_driver);
  if (sanitized) return "not measured in a sanitized build";
  return fmt::format("{} is not installed: install {}", subject.preload, subject.package);
}

}  // namespace assay::bench
