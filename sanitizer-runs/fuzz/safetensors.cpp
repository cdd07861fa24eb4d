// Fuzzes read_safetensors: any file is refused in one line, or is what a plain reading of the
// format, written here a second time over nlohmann's tree, says it is.
#include <algorithm>
#include <string>
#include <tuple>

#include <nlohmann/json.hpp>

#include "assay/harness/safetensors.hpp"
#include "fuzz.hpp"

namespace assay::fuzz {
namespace {

using harness::SafeTensors;
using harness::Tensor;
using nlohmann::json;

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
};

unsigned bits_of(const std::string& type) {
#define ASSAY_TENSOR_TYPE(name, text, bits, kind) \
  if (type == text) return bits;
#include "assay/harness/tensor_types.def"
#undef ASSAY_TENSOR_TYPE
  return 0;
}

bool is_number(const json& value) {
  return value.is_number_unsigned();
}

/// The range of a tensor that is as the format wants it.
std::optional<Range> range_of(const std::string& name, const json& tensor) {
  if (!tensor.is_object() || !tensor.contains("dtype") || !tensor.contains("shape") ||
      !tensor.contains("data_offsets")) {
    return std::nullopt;
  }
  const json& offsets = tensor["data_offsets"];
  const json& shape = tensor["shape"];
  if (!tensor["dtype"].is_string() || !shape.is_array() || !offsets.is_array() ||
      offsets.size() != 2 || !std::ranges::all_of(offsets, is_number) ||
      !std::ranges::all_of(shape, is_number)) {
    return std::nullopt;
  }
  const unsigned bits = bits_of(tensor["dtype"].get<std::string>());
  if (bits == 0) return std::nullopt;
  Range range{offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>(), name};
  if (range.begin > range.end) return std::nullopt;
  unsigned __int128 size = 1;
  for (const json& extent : shape) {
    size *= extent.get<std::uint64_t>();
    if (size >> 64 != 0) return std::nullopt;
  }
  size *= bits;
  if (size >> 64 != 0 || size % 8 != 0 || size / 8 != range.end - range.begin) return std::nullopt;
  return range;
}

/// The header as a tree; nothing if a key stands twice in an object that must not have it twice.
std::optional<json> tree_of(std::string_view text) {
  std::vector<std::vector<std::string>> open;
  bool twice = false;
  bool in_metadata = false;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.empty()) {
      const auto& key = parsed.get_ref<const std::string&>();
      const bool has_meaning = key == "dtype" || key == "shape" || key == "data_offsets";
      const bool matters = open.size() == 1 || (open.size() == 2 && (in_metadata || has_meaning));
      if (open.size() == 1) in_metadata = key == "__metadata__";
      if (matters && std::ranges::find(open.back(), key) != open.back().end()) twice = true;
      open.back().push_back(key);
    }
    return true;
  };
  json tree = json::parse(text, watch, false);
  if (tree.is_discarded() || twice) return std::nullopt;
  return tree;
}

/// The ranges in order, if the file is well-formed.
std::optional<std::vector<Range>> read_plainly(std::span<const std::uint8_t> file) {
  if (file.size() < 8) return std::nullopt;
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | file[i];
  if (length > file.size() - 8 || length > SafeTensors::header_bytes_max) return std::nullopt;
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos) return std::nullopt;
  const auto tree = tree_of(text);
  if (!tree || !tree->is_object()) return std::nullopt;
  std::vector<Range> ranges;
  for (const auto& [name, value] : tree->items()) {
    if (name == "__metadata__") {
      const auto is_string = [](const json& entry) { return entry.is_string(); };
      if (!value.is_object() || !std::ranges::all_of(value, is_string)) return std::nullopt;
      continue;
    }
    const auto range = range_of(name, value);
    if (!range) return std::nullopt;
    ranges.push_back(*range);
  }
  std::ranges::sort(ranges, [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const Range& range : ranges) {
    if (range.begin != covered) return std::nullopt;
    covered = range.end;
  }
  if (covered != file.size() - 8 - length) return std::nullopt;
  return ranges;
}

void check(std::span<const std::uint8_t> data) {
  Bytes file = Bytes::from_span(std::as_bytes(data)).value();
  const auto read = harness::read_safetensors(std::move(file), "fuzzed");
  const auto plain = read_plainly(data);
  if (!read) {
    const std::string why = read.error().describe();
    expect(why.find('\n') == std::string::npos && why.size() < 1000, "a refusal is one short line");
    const bool for_depth = why.find("nested more than") != std::string::npos;
    expect(!plain || for_depth, "the plain reading refuses it too");
    return;
  }
  expect(plain.has_value(), "the plain reading accepts it too");
  expect(plain->size() == read->tensors.size(), "as many tensors");
  for (const Range& range : *plain) {
    const Tensor* const tensor = read->find(range.name);
    expect(tensor != nullptr, "every name is found");
    expect(tensor->offset == read->data_offset + range.begin, "its place");
    const auto first = data.begin() + static_cast<std::ptrdiff_t>(tensor->offset);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(tensor->data.data()),
                          tensor->data.len());
    expect(bytes.size() == range.end - range.begin, "its size");
    expect(std::equal(bytes.begin(), bytes.end(), first), "its bytes");
    const auto elements = harness::elements_of<std::uint32_t>(*tensor);
    if (elements) expect(elements.value().data.len() == bytes.size(), "its elements");
  }
}

}  // namespace
}  // namespace assay::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  assay::fuzz::check({data, size});
  return 0;
}
