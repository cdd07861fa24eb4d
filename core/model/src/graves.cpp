#include "graves.hpp"

#include <deque>
#include <map>
#include <mutex>

#include "immortal.hpp"

namespace assay::cuda::model {

namespace {

constexpr std::size_t graves_max = 1 << 16;

struct Grave {
  Site made;
  Site ended;
};

struct Graves {
  std::mutex mutex;
  std::map<const void*, Grave> by_handle;
  std::deque<const void*> order;
};
Graves& graves() {
  static Immortal<Graves> all;
  return *all;
}

}  // namespace

void bury_handle(const void* handle, const Site& made, const Site& ended) noexcept {
  Graves& all = graves();
  const std::scoped_lock lock(all.mutex);
  const bool is_new = all.by_handle.insert_or_assign(handle, Grave{made, ended}).second;
  if (is_new) all.order.push_back(handle);
  if (all.order.size() <= graves_max) return;
  all.by_handle.erase(all.order.front());
  all.order.pop_front();
}

std::string epitaph(const void* handle) {
  Graves& all = graves();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.by_handle.find(handle);
  if (found == all.by_handle.end()) return "never given out";
  return "made by " + describe(found->second.made) + ", ended by " + describe(found->second.ended);
}

}  // namespace assay::cuda::model
