#include "assay/buffer/cbor.hpp"

#include <algorithm>
#include <optional>

namespace assay {
namespace {

constexpr const char* feature = "decode_cbor";

enum class Major : std::uint8_t { unsigned_integer = 0, byte_string = 2, text = 3, array = 4 };

struct Head {
  Major major{};
  bool indefinite = false;
  std::uint64_t argument = 0;  ///< length, count or value; 0 if indefinite
  std::size_t size = 1;        ///< bytes of the head itself
};

/// Bytes to be decoded, which may have to be read first.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) noexcept : bytes_(bytes), size_(bytes.size()) {}
  /// `resident`: the bytes of `value` if they are in reach.
  Input(const Bytes& value, std::optional<std::span<const std::byte>> resident) noexcept
      : bytes_(resident.value_or(std::span<const std::byte>())),
        lazy_(resident ? nullptr : &value),
        size_(value.len()) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  [[nodiscard]] Error fault(const char* what, std::size_t offset) const noexcept {
    Error error = Error::make(ErrorCode::parse, feature, "", offset);
    error.limit = size_;
    error.native_text = what;
    return error;
  }

  /// The head at `offset`. `ahead`: how much to read at once where it has to be read.
  [[nodiscard]] Result<Head> head_at(std::size_t offset, std::size_t ahead) noexcept {
    if (offset >= size_) return fault("the input ends where an item must begin", offset);
    const std::size_t left = size_ - offset;
    ASSAY_TRY(const auto bytes, peek(offset, std::min(left, CborHead::size_max), ahead));
    const auto first = std::to_integer<unsigned>(bytes[0]);
    const unsigned info = first & 0x1f;
    Head head{.major = static_cast<Major>(first >> 5)};
    if (info < 24) {
      head.argument = info;
      return head;
    }
    if (info == 31) {
      head.indefinite = true;
      return head;
    }
    if (info > 27) return fault("a reserved length", offset);
    const std::size_t width = std::size_t{1} << (info - 24);
    if (left < 1 + width) return fault("the input ends inside a head", offset);
    for (const std::byte byte : bytes.subspan(1, width)) {
      head.argument = head.argument << 8 | std::to_integer<std::uint64_t>(byte);
    }
    head.size = 1 + width;
    return head;
  }

  /// Is the byte at `offset` the break that ends an indefinite item?
  [[nodiscard]] Result<bool> break_at(std::size_t offset, std::size_t ahead) noexcept {
    if (offset >= size_) return fault("the input ends before the break", offset);
    ASSAY_TRY(const auto byte, peek(offset, 1, ahead));
    return byte[0] == std::byte{0xff};
  }

  /// **Pre** inside the input.
  [[nodiscard]] Result<void> append_to(Bytes& to, std::size_t offset, std::size_t size) noexcept {
    if (size == 0) return {};
    if (lazy_ == nullptr) return to.extend(bytes_.subspan(offset, size));
    const std::size_t before = to.len();
    ASSAY_TRY_VOID(to.resize(before + size));
    ASSAY_TRY(const auto room, to.write());
    return lazy_->copy_into(room.subspan(before), offset);
  }

 private:
  static constexpr std::size_t window_max = 256;

  /// `need` bytes from `offset` on. **Pre** inside the input, need <= CborHead::size_max.
  Result<std::span<const std::byte>> peek(std::size_t offset, std::size_t need,
                                          std::size_t ahead) noexcept {
    if (lazy_ == nullptr) return bytes_.subspan(offset, need);
    const bool inside = offset >= window_at_ && offset + need <= window_at_ + window_size_;
    if (!inside) {
      const std::size_t want = std::max(need, std::min({ahead, window_max, size_ - offset}));
      window_size_ = 0;
      ASSAY_TRY_VOID(lazy_->copy_into(std::span(window_).first(want), offset));
      window_at_ = offset;
      window_size_ = want;
    }
    return std::span<const std::byte>(window_).subspan(offset - window_at_, need);
  }

  std::span<const std::byte> bytes_;
  const Bytes* lazy_ = nullptr;
  std::size_t size_ = 0;
  std::size_t window_at_ = 0;
  std::size_t window_size_ = 0;
  std::array<std::byte, window_max> window_;  // holds only what was read
};

/// A string of definite length begins at `offset`: its head, its payload inside the input.
Result<Head> definite_string(Input& input, std::size_t offset) noexcept {
  ASSAY_TRY(const Head head, input.head_at(offset, CborHead::size_max));
  if (head.major != Major::byte_string) {
    return input.fault("a chunk that is not a byte string", offset);
  }
  if (head.indefinite) return input.fault("a chunk of indefinite length", offset);
  if (head.argument > input.size() - offset - head.size) {
    return input.fault("a length beyond the end of the input", offset);
  }
  return head;
}

/// Calls `visit(offset, size)` for the payload of each chunk from `at` on; returns where they end.
template <class Visit>
Result<std::size_t> walk_chunks(Input& input, std::size_t at, Visit&& visit) noexcept {
  for (;;) {
    ASSAY_TRY(const bool ends, input.break_at(at, CborHead::size_max));
    if (ends) return at + 1;
    ASSAY_TRY(const Head head, definite_string(input, at));
    const auto size = static_cast<std::size_t>(head.argument);
    ASSAY_TRY_VOID(visit(at + head.size, size));
    at += head.size + size;
  }
}

/// Calls `visit(byte)` for each element of the array that `array` began; returns where it ends.
template <class Visit>
Result<std::size_t> walk_integers(Input& input, const Head& array, Visit&& visit) noexcept {
  const std::size_t everything = input.size();
  std::size_t at = array.size;
  // An element takes a byte at least.
  if (array.argument > input.size() - at) {
    return input.fault("more elements than the input has bytes", 0);
  }
  for (std::uint64_t left = array.argument; array.indefinite || left > 0; --left) {
    if (array.indefinite) {
      ASSAY_TRY(const bool ends, input.break_at(at, everything));
      if (ends) return at + 1;
    }
    ASSAY_TRY(const Head element, input.head_at(at, everything));
    if (element.major != Major::unsigned_integer || element.indefinite) {
      return input.fault("an element that is not an unsigned integer", at);
    }
    if (element.argument > 0xff) return input.fault("an element above 255", at);
    ASSAY_TRY_VOID(visit(static_cast<std::byte>(element.argument)));
    at += element.size;
  }
  return at;
}

Result<CborString> joined_chunks(Input& input, Home& home) noexcept {
  std::size_t total = 0;  // never wraps: every chunk lies in the input
  ASSAY_TRY_VOID(walk_chunks(input, 1, [&](std::size_t, std::size_t size) -> Result<void> {
    total += size;
    return {};
  }));
  ASSAY_TRY(Bytes value, Bytes::with_capacity(total, home));
  ASSAY_TRY(const std::size_t end, walk_chunks(input, 1, [&](std::size_t offset, std::size_t size) {
              return input.append_to(value, offset, size);
            }));
  return CborString{std::move(value), end};
}

Result<CborString> gathered_integers(Input& input, const Head& array, Home& home) noexcept {
  std::size_t count = 0;
  ASSAY_TRY_VOID(walk_integers(input, array, [&](std::byte) -> Result<void> {
    ++count;
    return {};
  }));
  ASSAY_TRY(Bytes value, Bytes::with_capacity(count, home));
  ASSAY_TRY(const std::size_t end,
            walk_integers(input, array, [&](std::byte byte) { return value.extend({&byte, 1}); }));
  return CborString{std::move(value), end};
}

/// Memory that others can change, as a mapped file, is asked again once its bytes were used.
Result<void> still_the_same(const Bytes& resident) noexcept {
  ASSAY_TRY_VOID(resident.read(Reader::no_copy()));
  return {};
}

/// **Pre** `to` has room.
Result<void> append_payload(Bytes& to, const Bytes& value) noexcept {
  if (value.is_resident()) {
    ASSAY_TRY(const auto all, value.read());
    ASSAY_TRY_VOID(to.extend(all));
    return still_the_same(value);
  }
  const std::size_t payload = to.len();
  ASSAY_TRY_VOID(to.resize(payload + value.len()));
  ASSAY_TRY(const auto room, to.write());
  return value.copy_into(room.subspan(payload));
}

/// Decodes; `take(offset, size)` makes the value of a string of definite length.
template <class Take>
Result<CborString> decode(Input& input, Home& home, Take&& take) noexcept {
  ASSAY_TRY(const Head head, input.head_at(0, CborHead::size_max));
  switch (head.major) {
    case Major::byte_string: {
      if (head.indefinite) return joined_chunks(input, home);
      if (head.argument > input.size() - head.size) {
        return input.fault("a length beyond the end of the input", 0);
      }
      const auto size = static_cast<std::size_t>(head.argument);
      ASSAY_TRY(Bytes value, take(head.size, size));
      return CborString{std::move(value), head.size + size};
    }
    case Major::array: return gathered_integers(input, head, home);
    case Major::text: return input.fault("a text string where a byte string must be", 0);
    default: return input.fault("neither a byte string nor an array of integers", 0);
  }
}

}  // namespace

Result<std::size_t> encode_cbor(const Bytes& value, std::span<std::byte> to) noexcept {
  const CborHead head(value.len());
  const std::size_t size = head.size() + value.len();
  if (to.size() < size) {
    Error error = Error::make(ErrorCode::out_of_range, "encode_cbor", "", size);
    error.limit = to.size();
    return error;
  }
  ASSAY_TRY_VOID(value.copy_into(to.subspan(head.size(), value.len())));
  std::ranges::copy(head.span(), to.begin());
  return size;
}

Result<Bytes> encode_cbor(const Bytes& value, Home& home) noexcept {
  ASSAY_TRY(Bytes made, Bytes::with_capacity(cbor_size(value.len()), home));
  ASSAY_TRY_VOID(append_cbor(made, value));
  return made;
}

Result<void> append_cbor(Bytes& to, const Bytes& value) noexcept {
  ASSAY_CONTRACT(&to != &value, "a value appended to itself");
  const CborHead head(value.len());
  const std::size_t before = to.len();
  ASSAY_TRY_VOID(to.reserve(head.size() + value.len()));
  // From here on only the source can fail: the room is there.
  ASSAY_TRY_VOID(to.extend(head.span()));
  const auto appended = append_payload(to, value);
  if (!appended) to.truncate(before);
  return appended;
}

Result<CborString> decode_cbor(std::span<const std::byte> bytes, Home& home) noexcept {
  Input input(bytes);
  return decode(input, home, [&](std::size_t offset, std::size_t size) {
    return Bytes::from_span(bytes.subspan(offset, size), home);
  });
}

Result<CborString> decode_cbor(const Bytes& bytes) noexcept {
  std::optional<std::span<const std::byte>> resident;
  if (bytes.is_resident()) {
    ASSAY_TRY(resident, bytes.read());
  }
  Input input(bytes, resident);
  Home& home = bytes.home();
  auto decoded = decode(input, home, [&](std::size_t offset, std::size_t size) {
    if (bytes.is_shared()) return bytes.view(offset, offset + size);
    return Bytes::from_span(bytes.span().subspan(offset, size), home);
  });
  if (decoded && resident) ASSAY_TRY_VOID(still_the_same(bytes));
  return decoded;
}

}  // namespace assay
