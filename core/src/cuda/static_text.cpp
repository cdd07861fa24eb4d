#include "static_text.hpp"

#include <array>
#include <cstring>
#include <mutex>

namespace assay::cuda::detail {
namespace {

constexpr std::size_t texts_max = 64;
constexpr std::size_t bytes_max = 500;
constinit std::mutex mutex;
constinit std::array<const char*, texts_max> texts{};

}  // namespace

const char* static_text(const std::string& text) noexcept {
  const std::size_t size = text.size() < bytes_max ? text.size() : bytes_max;
  const std::lock_guard lock(mutex);
  for (const char*& one : texts) {
    if (one == nullptr) {
      char* const copy = new (std::nothrow) char[size + 1];
      if (copy == nullptr) break;
      std::memcpy(copy, text.data(), size);
      copy[size] = '\0';
      one = copy;
      return one;
    }
    if (text.compare(0, size, one) == 0) return one;
  }
  return "(no room for the details)";
}

}  // namespace assay::cuda::detail
