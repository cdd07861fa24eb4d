// CBOR: a Bytes as one byte string (RFC 8949, major type 2), written and read with one copy at
// most.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/buffer/bytes.hpp"

namespace assay {

/// The head of a byte string: type and length, in the shortest form.
///
///     42        ad de            58 20      .. 32 bytes ..       5b 00 00 00 01 00 00 00 00   ..
///     │└ length                  │└ length follows in 1 byte     │└ length follows in 8 bytes
///     └ major type 2
class CborHead {
 public:
  static constexpr std::size_t size_max = 9;

  explicit constexpr CborHead(std::uint64_t len) noexcept {
    constexpr unsigned byte_string = 2u << 5;
    if (len <= 23) {
      bytes_[0] = static_cast<std::byte>(byte_string | len);
      return;
    }
    // The length follows in 1, 2, 4 or 8 bytes, which the first byte tells as 24 to 27.
    const auto width_log2 = len <= 0xff ? 0u : len <= 0xffff ? 1u : len <= 0xffff'ffff ? 2u : 3u;
    const std::size_t width = std::size_t{1} << width_log2;
    bytes_[0] = static_cast<std::byte>(byte_string | (24 + width_log2));
    for (std::size_t i = 0; i < width; ++i) {
      bytes_[1 + i] = static_cast<std::byte>(len >> (8 * (width - 1 - i)));
    }
    size_ = 1 + width;
  }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr std::span<const std::byte> span() const noexcept {
    return std::span(bytes_).first(size_);
  }

 private:
  std::array<std::byte, size_max> bytes_{};
  std::size_t size_ = 1;
};

/// Bytes of the encoding of `len` bytes. **Pre** len <= assay::size_max, as of every Bytes.
[[nodiscard]] constexpr std::size_t cbor_size(std::size_t len) noexcept {
  return CborHead(len).size() + len;
}

// --- encoding: definite length, shortest head. A value that is not resident stays so.

/// Writes to the front of `to` and returns how many bytes it took: `cbor_size(value.len())`.
/// **Errors** out_of_range if `to` is shorter, then nothing is written; those of the source, then
/// `to` holds undefined bytes. **Cost** one copy or one read.
[[nodiscard]] Result<std::size_t> encode_cbor(const Bytes& value, std::span<std::byte> to) noexcept;

/// An exclusive value that holds the encoding. **Errors** those of `home` and of the source.
/// **Cost** one allocation; one copy, or one read into zeroed memory.
[[nodiscard]] Result<Bytes> encode_cbor(const Bytes& value, Home& home = Home::host()) noexcept;

/// Appends the encoding, so that one buffer can be used again. On error `to` holds what it held.
/// **Pre** two different objects. **Errors**, **Cost** as above; no allocation if `to` has room.
[[nodiscard]] Result<void> append_cbor(Bytes& to, const Bytes& value) noexcept;

/// Hands the encoding to `sink(std::span<const std::byte>)`, which returns a Result<void>: the
/// head, then the bytes. They come in one piece, uncopied, from a resident value (`scratch` may
/// then be empty), and by way of `scratch`, piece by piece, from any other. **Errors**
/// invalid_argument for an empty scratch where one is needed, before the sink is called; those of
/// the source and of `sink`, which then has had a part. **Cost** at most one read. **Pre** a sink
/// that does not throw: one that fills a vector has `cbor_size()` to reserve by.
template <class Sink>
[[nodiscard]] Result<void> encode_cbor(const Bytes& value, std::span<std::byte> scratch,
                                       Sink&& sink) noexcept {
  const CborHead head(value.len());
  const bool direct = value.is_resident();
  if (!direct && scratch.empty()) return Error::make(ErrorCode::invalid_argument, "encode_cbor");
  ASSAY_TRY_VOID(sink(head.span()));
  if (value.is_empty()) return {};
  if (!direct) return value.read_chunks(scratch, sink);
  ASSAY_TRY(const std::span<const std::byte> all, value.read());
  ASSAY_TRY_VOID(sink(all));
  ASSAY_TRY_VOID(value.read());  // memory that others can change: is it what the sink has had?
  return {};
}

// --- decoding

/// What a byte string held, and where the next item of a sequence begins.
struct CborString {
  Bytes value;
  std::size_t consumed = 0;  ///< bytes of the input that the string took
};

/// Reads the byte string at the front of `input`; what follows it is not looked at.
///
/// Accepted: a string of definite length; one of indefinite length, whose chunks are joined; and,
/// for writers without a byte string, an array of integers 0 to 255. Lengths and integers need not
/// be in their shortest form: RFC 8949 asks that of deterministic encoders, not of decoders. Tags
/// are refused.
///
/// **Errors** parse: `requested` is the offset of the head or byte at fault, `limit` the length of
/// the input, and `native_text` says what is wrong. A length that the input does not have is
/// refused before anything is allocated. Otherwise those of `home`. **Cost** one allocation and
/// one copy.
[[nodiscard]] Result<CborString> decode_cbor(std::span<const std::byte> input,
                                             Home& home = Home::host()) noexcept;

/// As above, at the input's home. From a shared input a string of definite length is a view: it
/// copies nothing and keeps the input's block alive (`retained_bytes()`, `compact()`). An input
/// that is not resident stays so: of it the heads are read, and the bytes only if they must be
/// copied. **Errors** also those of the source.
[[nodiscard]] Result<CborString> decode_cbor(const Bytes& input) noexcept;

}  // namespace assay
