// B12: a value as a CBOR byte string, decoded and encoded.
#include "assay/buffer/cbor.hpp"

#include <array>
#include <cstring>

#include "material.hpp"

namespace assay::yardstick {
namespace {

/// The encoding of `size` bytes of the pattern.
std::vector<std::byte> encoding(std::size_t size) {
  const CborHead head(size);
  std::vector<std::byte> all(head.span().begin(), head.span().end());
  const std::vector<std::byte> bytes = pattern(size);
  all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

class Decode final : public Pair {
 public:
  explicit Decode(std::size_t size) : size_(size), input_(encoding(size)) {}

  std::string verify() override {
    const CborString read = must(decode_cbor(input_));
    if (read.consumed != input_.size()) return "a byte string ends elsewhere";
    return holds_pattern(read.value, size_) ? "" : "the value holds other bytes";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const auto read = decode_cbor(input_);
      if (!read) return fail(read.error());
      use(read);
    }
  }
  void yardstick(std::size_t times) override { copies_by_hand(input_.data(), size_, times); }

 private:
  std::size_t size_;
  std::vector<std::byte> input_;
};

/// Into a buffer that is kept.
class Encode final : public Pair {
 public:
  explicit Encode(std::size_t size)
      : value_(exclusive_value(size)), bytes_(pattern(size)), output_(cbor_size(size)) {}

  std::string verify() override {
    const std::size_t took = must(encode_cbor(value_, std::span(output_)));
    if (took != output_.size()) return "the encoding has another length";
    return output_ == encoding(value_.len()) ? "" : "the encoding holds other bytes";
  }
  void operation(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) {
      const auto took = encode_cbor(value_, std::span(output_));
      if (!took) return fail(took.error());
      auto* at = output_.data();
      hide(at);
    }
  }
  void yardstick(std::size_t times) override {
    const std::byte* from = bytes_.data();
    std::byte* to = output_.data();
    std::size_t size = bytes_.size();
    for (std::size_t i = 0; i < times; ++i) {
      hide(from);
      hide(to);
      hide(size);
      std::memcpy(to, from, size);
      hide(to);
    }
  }

 private:
  Bytes value_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> output_;
};

constexpr std::size_t mib = std::size_t{1} << 20;

constexpr Row decode_row(std::size_t size) {
  return {.name = "B12.decode",
          .size = size,
          .summary = "a CBOR byte string read into a value, dropped",
          .yardstick = "malloc, memcpy and free",
          .limit = 1.2,
          .copied = size,
          .make = make_pair_of<Decode>};
}

}  // namespace

std::span<const Row> cbor() {
  static constexpr std::array rows = {
      decode_row(64),
      decode_row(mib),
      Row{.name = "B12.encode",
          .size = mib,
          .summary = "a value written as a CBOR byte string",
          .yardstick = "memcpy",
          .limit = 1.2,
          .copied = mib,
          .no_faults = true,
          .make = make_pair_of<Encode>},
  };
  return rows;
}

}  // namespace assay::yardstick
