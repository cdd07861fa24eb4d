// Fuzzes decode_cbor: any bytes are refused with their place, or are what nlohmann-json reads, and
// come back the same from encode_cbor.
#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "assay/buffer/cbor.hpp"
#include "fuzz.hpp"

namespace assay::fuzz {
namespace {

using nlohmann::json;
using Octets = std::vector<std::uint8_t>;

std::span<const std::uint8_t> octets_of(const Bytes& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.len()};
}

/// What the other library makes of the same bytes: nothing if it refuses them, or reads something
/// that is neither a byte string nor an array of integers up to 255.
std::optional<Octets> read_by_other(std::span<const std::uint8_t> input) {
  json read;
  try {
    read = json::from_cbor(input.begin(), input.end());
  } catch (const json::exception&) {
    return std::nullopt;
  }
  if (read.is_binary()) return Octets(read.get_binary());
  if (!read.is_array()) return std::nullopt;
  Octets octets;
  for (const json& element : read) {
    if (!element.is_number_unsigned() || element.get<std::uint64_t>() > 255) return std::nullopt;
    octets.push_back(element.get<std::uint8_t>());
  }
  return octets;
}

void check(std::span<const std::uint8_t> data) {
  const auto input = std::as_bytes(data);
  const auto decoded = decode_cbor(input);
  Bytes whole = Bytes::from_span(input).value();
  expect(whole.shared().has_value(), "shared() of a whole value");
  const auto viewed = decode_cbor(whole);
  expect(decoded.has_value() == viewed.has_value(), "a span and a shared value agree");
  if (!decoded) {
    expect(decoded.error().code == ErrorCode::parse, "a refusal is a parse error");
    expect(decoded.error().requested <= data.size(), "its place lies in the input");
    expect(decoded.error() == viewed.error(), "both refuse alike");
    // RFC 8949, 3.2.3: chunks are of definite length. The other library takes any.
    const std::string_view why = decoded.error().native_text;
    expect(why == "a chunk of indefinite length" || !read_by_other(data).has_value(),
           "the other library refuses it too");
    return;
  }
  const std::size_t consumed = decoded.value().consumed;
  expect(consumed == viewed.value().consumed && consumed <= data.size(), "consumed");
  expect(decoded.value().value == viewed.value().value, "a copy and a view are equal");
  const auto octets = octets_of(decoded.value().value);
  const auto other = read_by_other(data.first(consumed));
  expect(other.has_value() && std::ranges::equal(*other, octets), "the other library's reading");

  const Bytes again = encode_cbor(decoded.value().value).value();
  expect(std::ranges::equal(octets_of(again), json::to_cbor(json::binary(*other))),
         "the other library's writing");
}

}  // namespace
}  // namespace assay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  assay::fuzz::check({data, size});
  return 0;
}
