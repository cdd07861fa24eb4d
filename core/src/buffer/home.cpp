#include "assay/buffer/home.hpp"

#include <new>

#include "assay/backing/host.hpp"

namespace assay {

Result<Ref<Home>> Home::make(Ref<Backing> backing, const Options& options) noexcept {
  static_assert(sizeof(Home) <= node_pool::small_node);
  if (!backing) return Error::make(ErrorCode::invalid_argument, "home without a backing");
  if (!is_alignment(options.alignment)) {
    return Error::make(ErrorCode::invalid_alignment, "home", backing->info().id, options.alignment);
  }
  const char* const id = backing->info().id;
  Home* const home = new (std::nothrow) Home(std::move(backing), options, Immortal::no);
  if (home == nullptr) return Error::make(ErrorCode::out_of_memory, "home", id, sizeof(Home));
  return Ref<Home>::adopt(home);
}

Result<Ref<Home>> Home::make(Ref<Backing> backing) noexcept {
  return make(std::move(backing), Options{});
}

Home& Home::host() noexcept {
  // Never destroyed: values in other static objects may outlive any order of destruction.
  alignas(Home) static std::byte place[sizeof(Home)];
  static Home* const home = new (place) Home(make_host(), Options{}, Immortal::yes);
  return *home;
}

}  // namespace assay
