#include "suite/session.hpp"

#include <cstdlib>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>

#include "suite/codes.hpp"

namespace assay::conformance {
namespace {

namespace abi = cuda::abi;
using cuda::Regime;

constexpr const char* default_library = "libcuda.so.1";

std::string library_of(const std::string& path) {
  if (!path.empty()) return path;
  const char* const named = std::getenv(cuda::Driver::path_variable);
  return named != nullptr && *named != '\0' ? named : default_library;
}

/// What loading `library` came to. Only that the usual driver is absent is a host without a GPU.
NoSession why_not(const std::string& library, const Error& error, const cuda::LoadReport& report) {
  const bool usual = library == default_library;
  const auto is = [&](Status status) {
    return error.native == static_cast<std::int32_t>(status) &&
           error.code == ErrorCode::driver_error;
  };
  const bool absent = error.code == ErrorCode::no_driver;
  const bool misconfigured = report.is_model && is(Status::unknown);
  return {.nothing_to_run = error.code == ErrorCode::no_device || (absent && usual),
          .unusable = (absent && !usual) || error.code == ErrorCode::invalid_argument ||
                      is(Status::stub_library) || misconfigured,
          .why = describe(error)};
}

/// Every function by its exported name, which calls nothing: cuInit is the test's affair.
std::expected<Session, NoSession> look_up(const std::string& path) {
  const std::string library = library_of(path);
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string why = fmt::format("no driver: {}", ::dlerror());
    return std::unexpected(NoSession{library == default_library, library != default_library, why});
  }
  Session session;
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  session.table.symbol = reinterpret_cast<decltype(session.table.symbol)>(::dlsym(handle, #symbol));
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  using Marker = const assay_model_control* (*)();
  const auto marker = reinterpret_cast<Marker>(::dlsym(handle, abi::model_marker));
  session.model = marker != nullptr ? marker() : nullptr;
  if (session.table.cuInit == nullptr || session.table.cuDriverGetVersion == nullptr) {
    return std::unexpected(
        NoSession{.unusable = true, .why = fmt::format("{}: this is no CUDA driver", library)});
  }
  (void)session.table.cuDriverGetVersion(&session.version);
  return session;
}

}  // namespace

bool Session::has(cuda::Feature feature) const noexcept {
  const std::string_view wanted = cuda::name_of(feature);
  bool all = true;
#define ASSAY_DRIVER_FUNCTION(symbol, base, version, need, parameters) \
  all = all && (wanted != #need || table.symbol != nullptr);
#include "assay/cuda/abi/driver_functions.def"
#undef ASSAY_DRIVER_FUNCTION
  return all;
}

std::expected<Session, NoSession> open_session(const std::string& path, Start start) {
  if (start == Start::unloaded) return look_up(path);
  cuda::LoadReport report;
  const std::string library = library_of(path);
  auto driver = cuda::Driver::load({.path = library}, &report);
  if (!driver) return std::unexpected(why_not(library, driver.error(), report));
  Ref<cuda::Driver> loaded = std::move(driver).value();
  Session session;
  session.table = loaded->table();
  session.model = loaded->model();
  session.version = loaded->version();
  session.initialised = true;
  auto facts = loaded->device_facts(0);
  if (!facts) return std::unexpected(NoSession{.why = describe(facts.error())});
  session.facts = std::move(facts).value();
  session.driver = std::move(loaded);
  if (start != Start::current) return session;
  Status status = session.table.cuDevicePrimaryCtxRetain(&session.context, 0);
  if (status == Status::success) status = session.table.cuCtxSetCurrent(session.context);
  if (status != Status::success) {
    return std::unexpected(NoSession{.why = "no context on device 0: " +
                                            spell_code(static_cast<std::uint32_t>(status))});
  }
  return session;
}

namespace {

std::string attribute_name(DeviceAttribute which) {
  for (const auto& row : cuda::attribute_rows()) {
    if (row.attribute == which) return row.name;
  }
  return fmt::format("attribute {}", static_cast<unsigned>(which));
}

std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string wrong_regime(const Needs& needs, const Session& session) {
  if (needs.regimes.empty()) return "";
  std::string wanted;
  for (const Regime regime : needs.regimes) {
    if (session.facts.regime == regime) return "";
    wanted += (wanted.empty() ? "" : " or ") + std::string(cuda::name_of(regime));
  }
  return fmt::format("needs the memory regime {}, here it is {}", wanted,
                     cuda::name_of(session.facts.regime));
}

}  // namespace

std::string unmet(const Needs& needs, const Session& session) {
  if (needs.model_only != nullptr && session.model == nullptr) {
    return fmt::format("model only: {}", needs.model_only);
  }
  if (needs.driver_only != nullptr && session.model != nullptr) {
    return fmt::format("driver only: {}", needs.driver_only);
  }
  if (session.version < needs.version_least) {
    return fmt::format("needs a driver of {} or newer", dotted(needs.version_least));
  }
  if (needs.version_below != 0 && session.version >= needs.version_below) {
    return fmt::format("needs a driver older than {}", dotted(needs.version_below));
  }
  for (const cuda::Feature feature : needs.features) {
    if (!session.has(feature)) return fmt::format("needs {}", cuda::name_of(feature));
  }
  for (const auto& attribute : needs.attributes) {
    if (session.facts.has(attribute.which) != attribute.present) {
      return fmt::format("needs {} = {}", attribute_name(attribute.which),
                         attribute.present ? 1 : 0);
    }
  }
  return wrong_regime(needs, session);
}

}  // namespace assay::conformance
