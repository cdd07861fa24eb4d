// Access: may an operation copy, and how is a value cut?
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace assay {

/// Permission to copy payload bytes during one access.
class AccessPolicy {
 public:
  [[nodiscard]] static constexpr AccessPolicy allow_copy() noexcept { return AccessPolicy(true); }
  [[nodiscard]] static constexpr AccessPolicy no_copy() noexcept { return AccessPolicy(false); }
  [[nodiscard]] constexpr bool copy_allowed() const noexcept { return copy_allowed_; }
  friend constexpr bool operator==(AccessPolicy, AccessPolicy) = default;

 private:
  explicit constexpr AccessPolicy(bool copy_allowed) noexcept : copy_allowed_(copy_allowed) {}
  bool copy_allowed_;
};

/// How to read: copying (materialising) is allowed unless told otherwise.
struct Reader {
  AccessPolicy policy = AccessPolicy::allow_copy();
  [[nodiscard]] static constexpr Reader no_copy() noexcept { return {AccessPolicy::no_copy()}; }
};

/// How to write: copying (a fork) is allowed unless told otherwise.
struct Writer {
  AccessPolicy policy = AccessPolicy::allow_copy();
  [[nodiscard]] static constexpr Writer no_copy() noexcept { return {AccessPolicy::no_copy()}; }
};

/// What the parts of a shared value are after a split. An exclusive value gives exclusive parts
/// under both.
enum class SplitPolicy : std::uint8_t {
  shared,  ///< windows of one group: no copy now, a write forks
  owned,   ///< exclusive halves of one block: at most one copy, now
};

namespace detail {

inline constinit thread_local std::uint64_t payload_copied = 0;

/// The only way in which handles copy payload, so that "no copy" can be counted, not believed.
inline void copy_payload(void* to, const void* from, std::size_t size) noexcept {
  if (size == 0) return;
  std::memmove(to, from, size);
  payload_copied += size;
}

}  // namespace detail

/// What handles read from sources out of the host's reach (files, devices): "lazy", counted.
struct SourceReads {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const SourceReads&, const SourceReads&) = default;
};

namespace detail {
inline constinit thread_local SourceReads source_read{};
}  // namespace detail

/// Reads of the calling thread, ever; failed ones count as calls. Cost: a thread-local load.
[[nodiscard]] inline SourceReads source_reads() noexcept {
  return detail::source_read;
}

/// Payload bytes that handles copied on the calling thread, ever. Cost: a thread-local load.
[[nodiscard]] inline std::uint64_t payload_bytes_copied() noexcept {
  return detail::payload_copied;
}

}  // namespace assay
