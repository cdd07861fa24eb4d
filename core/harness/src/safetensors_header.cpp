#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "assay/base/checked.hpp"

namespace assay::harness {
namespace {

struct TypeRow {
  const char* text;
  unsigned bits;
  bool is_signed;
  bool is_floating;
  bool is_raw;
};

enum class Kind : std::uint8_t { signed_integer, unsigned_integer, floating, raw };

constexpr TypeRow row(const char* text, unsigned bits, Kind kind) noexcept {
  const bool floating = kind == Kind::floating;
  return {text, bits, floating || kind == Kind::signed_integer, floating, kind == Kind::raw};
}

constexpr std::array type_rows = {
#define ASSAY_TENSOR_TYPE(name, text, bits, kind) row(text, bits, Kind::kind),
#include "assay/harness/tensor_types.def"
#undef ASSAY_TENSOR_TYPE
};

const TypeRow& row_of(TensorType type) noexcept {
  return type_rows[static_cast<std::size_t>(type)];
}

std::optional<TensorType> type_of(std::string_view text) noexcept {
  for (std::size_t i = 0; i < type_rows.size(); ++i) {
    if (text == type_rows[i].text) return static_cast<TensorType>(i);
  }
  return std::nullopt;
}

/// `tensors["name"]`, printable whatever the name is.
std::string path_of(std::string_view name) {
  std::string shown = quoted(name);
  shown.front() = shown.back() = '"';
  return fmt::format("tensors[{}]", shown);
}

std::string metadata_path(std::string_view key) {
  std::string shown = quoted(key);
  shown.front() = shown.back() = '"';
  return fmt::format("__metadata__[{}]", shown);
}

/// Takes the header's events as the parser meets them, so that a key that stands twice is seen, no
/// tree is built, and what has no place in a header is refused where it begins.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}

  [[nodiscard]] std::string& problem() noexcept { return problem_; }
  [[nodiscard]] SafeTensorsHeader& header() noexcept { return header_; }

  bool null() override { return scalar("null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return scalar(fmt::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text); }
  bool binary(binary_t&) override { return scalar("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::shape) {
      tensor_.shape.push_back(value);
      return true;
    }
    if (at_ == At::offsets && offsets_ < 2) {
      (offsets_ == 0 ? tensor_.begin : tensor_.end) = value;
      ++offsets_;
      return true;
    }
    return scalar(fmt::to_string(value));
  }

  bool string(string_t& value) override {
    if (at_ == At::metadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (at_ != At::tensor || field_ != Field::dtype) return scalar(quoted(std::string_view(value)));
    const auto type = type_of(value);
    if (!type)
      return refuse(
          fmt::format("is {}, which is no type of safetensors", quoted(std::string_view(value))));
    tensor_.type = *type;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (at_) {
      case At::file: at_ = At::top; return true;
      case At::top:
        if (key_ == "__metadata__") {
          at_ = At::metadata;
          return true;
        }
        at_ = At::tensor;
        field_ = Field::none;
        seen_ = {};
        tensor_ = {};
        tensor_.name = key_;
        return true;
      default: return open("an object");
    }
  }

  bool start_array(std::size_t) override {
    if (at_ == At::tensor && field_ == Field::shape) {
      at_ = At::shape;
      return true;
    }
    if (at_ == At::tensor && field_ == Field::data_offsets) {
      at_ = At::offsets;
      offsets_ = 0;
      return true;
    }
    return open("an array");
  }

  bool key(string_t& key) override {
    switch (at_) {
      case At::top:
        key_ = key;
        if (names_.insert(key).second) return true;
        return refuse("stands twice");
      case At::metadata:
        key_ = key;
        if (!header_.metadata.contains(key)) return true;
        return refuse("stands twice");
      case At::tensor: return tensor_key(key);
      default: return true;
    }
  }

  bool end_object() override {
    switch (at_) {
      case At::ignored: return close();
      case At::tensor:
        if (!end_tensor()) return false;
        at_ = At::top;
        return true;
      case At::metadata: at_ = At::top; return true;
      default: return true;
    }
  }

  bool end_array() override {
    if (at_ == At::ignored) return close();
    if (at_ == At::offsets && offsets_ != 2) {
      at_ = At::tensor;
      return refuse(fmt::format("has {} numbers; it must be [begin, end]", offsets_));
    }
    at_ = At::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& last,
                   const nlohmann::detail::exception&) override {
    problem_ = fmt::format("header: not JSON at its byte {}, after {}", position,
                           quoted(std::string_view(last)));
    return false;
  }

 private:
  enum class At : std::uint8_t { file, top, metadata, tensor, shape, offsets, ignored };
  enum class Field : std::uint8_t { none, dtype, shape, data_offsets, unknown };
  static constexpr std::size_t ignored_depth_max = 16;

  /// The field that the parser stands at.
  [[nodiscard]] std::string path() const {
    switch (at_) {
      case At::file: return "header";
      case At::top: return key_ == "__metadata__" ? key_ : path_of(key_);
      case At::metadata: return metadata_path(key_);
      case At::shape:
        return fmt::format("{}.shape[{}]", path_of(tensor_.name), tensor_.shape.size());
      case At::offsets: return fmt::format("{}.data_offsets[{}]", path_of(tensor_.name), offsets_);
      default: return tensor_path();
    }
  }

  [[nodiscard]] std::string tensor_path() const {
    std::string tensor = path_of(tensor_.name);
    switch (field_) {
      case Field::dtype: return tensor + ".dtype";
      case Field::shape: return tensor + ".shape";
      case Field::data_offsets: return tensor + ".data_offsets";
      default: return tensor;
    }
  }

  [[nodiscard]] const char* expected() const noexcept {
    switch (at_) {
      case At::top:
        return key_ == "__metadata__" ? "an object of strings"
                                      : "an object of dtype, shape and data_offsets";
      case At::metadata: return "a string";
      case At::shape: return "a whole number below 2^64";
      case At::offsets: return "one of two whole numbers below 2^64";
      case At::tensor:
        return field_ == Field::dtype   ? "a string such as 'F32'"
               : field_ == Field::shape ? "an array of whole numbers"
                                        : "an array of two whole numbers";
      default: return "an object";
    }
  }

  bool refuse(std::string_view what) {
    problem_ = fmt::format("{} {}", path(), what);
    return false;
  }

  /// A value that only a field of no meaning here may have.
  bool scalar(std::string_view shown) {
    if (at_ == At::ignored || (at_ == At::tensor && field_ == Field::unknown)) return true;
    return refuse(fmt::format("is {}; it must be {}", shown, expected()));
  }

  bool open(const char* what) {
    if (at_ == At::ignored) {
      if (++depth_ <= ignored_depth_max) return true;
      return refuse(fmt::format("is nested more than {} deep", ignored_depth_max));
    }
    if (at_ != At::tensor || field_ != Field::unknown) return scalar(what);
    at_ = At::ignored;
    depth_ = 1;
    return true;
  }

  bool close() noexcept {
    if (--depth_ == 0) at_ = At::tensor;
    return true;
  }

  bool tensor_key(std::string_view key) {
    field_ = key == "dtype"          ? Field::dtype
             : key == "shape"        ? Field::shape
             : key == "data_offsets" ? Field::data_offsets
                                     : Field::unknown;
    if (field_ == Field::unknown) return true;  // as upstream does
    bool& seen = seen_[static_cast<std::size_t>(field_)];
    if (seen) return refuse("stands twice");
    seen = true;
    return true;
  }

  bool end_tensor() {
    for (const Field field : {Field::dtype, Field::shape, Field::data_offsets}) {
      field_ = field;
      if (!seen_[static_cast<std::size_t>(field)]) return refuse("is missing");
    }
    const auto [begin, end] = std::pair(tensor_.begin, tensor_.end);
    field_ = Field::data_offsets;
    if (begin > end)
      return refuse(fmt::format("is [{}, {}]: it ends before it begins", begin, end));
    if (end > data_bytes_) {
      offsets_ = 1;
      at_ = At::offsets;
      return refuse(
          fmt::format("is {}, past the {} bytes that the file has behind its header; "
                      "if it is cut off, fetch it again",
                      end, data_bytes_));
    }
    field_ = Field::shape;
    std::optional<std::size_t> bits = 1;
    for (const std::uint64_t extent : tensor_.shape) {
      if (bits) bits = checked_multiply(*bits, extent);
    }
    const TypeRow& type = row_of(tensor_.type);
    if (bits) bits = checked_multiply(*bits, type.bits);
    if (!bits) return refuse(fmt::format("has more elements of {} than 64 bits count", type.text));
    if (*bits % 8 != 0) {
      return refuse(fmt::format("and dtype {} make {} bits, not whole bytes", type.text, *bits));
    }
    if (*bits / 8 != end - begin) {
      return refuse(fmt::format("and dtype {} make {} bytes, but data_offsets [{}, {}] hold {}",
                                type.text, *bits / 8, begin, end, end - begin));
    }
    header_.tensors.push_back(std::move(tensor_));
    return true;
  }

  std::uint64_t data_bytes_;
  SafeTensorsHeader header_;
  std::string problem_;
  std::set<std::string, std::less<>> names_;
  At at_ = At::file;
  Field field_ = Field::none;
  std::string key_;
  TensorFacts tensor_;
  std::array<bool, 5> seen_{};
  std::size_t offsets_ = 0;
  std::size_t depth_ = 0;
};

/// The tensors must fill the data: no byte belongs to two, none to none. Empty, or what is wrong.
std::string check_cover(std::vector<TensorFacts>& tensors, std::uint64_t data_bytes) {
  std::ranges::sort(tensors, [](const TensorFacts& a, const TensorFacts& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  const TensorFacts* before = nullptr;
  for (const TensorFacts& tensor : tensors) {
    if (tensor.begin > covered) {
      return fmt::format("{}.data_offsets[0] is {}, but bytes {} to {} belong to no tensor",
                         path_of(tensor.name), tensor.begin, covered, tensor.begin);
    }
    if (tensor.begin < covered) {
      return fmt::format("{}.data_offsets[0] is {}, inside {} (bytes {} to {})",
                         path_of(tensor.name), tensor.begin, path_of(before->name), before->begin,
                         before->end);
    }
    covered = tensor.end;
    before = &tensor;
  }
  if (covered == data_bytes) return "";
  return fmt::format(
      "data_offsets: the tensors end at byte {} of the data, but the file has {} "
      "bytes more",
      covered, data_bytes - covered);
}

}  // namespace

const char* name_of(TensorType type) noexcept {
  return row_of(type).text;
}

bool detail::holds_element(TensorType type, std::size_t size, bool is_signed,
                           bool is_floating) noexcept {
  const TypeRow& row = row_of(type);
  if (size != (row.bits + 7) / 8) return false;
  if (!is_signed) return true;
  return !row.is_raw && row.is_signed && row.is_floating == is_floating;
}

std::expected<SafeTensorsHeader, std::string> parse_safetensors_header(std::string_view json,
                                                                       std::uint64_t data_bytes) {
  if (json.empty() || json.front() != '{') {
    return std::unexpected(
        fmt::format("header begins with {}; it must begin with '{{'", quoted(json.substr(0, 1))));
  }
  // The parser takes a zero for the end of the text, whatever stands behind it.
  if (const auto zero = json.find('\0'); zero != std::string_view::npos) {
    return std::unexpected(fmt::format("header: a zero at its byte {}", zero));
  }
  Reader reader(data_bytes);
  if (!nlohmann::json::sax_parse(json, &reader)) return std::unexpected(reader.problem());
  std::string wrong = check_cover(reader.header().tensors, data_bytes);
  if (!wrong.empty()) return std::unexpected(std::move(wrong));
  return std::move(reader.header());
}

}  // namespace assay::harness
