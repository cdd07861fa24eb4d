#include "assay/harness/safetensors.hpp"

#include <array>

#include <fmt/format.h>

#include "safetensors_header.hpp"

namespace assay::harness {
namespace {

constexpr std::size_t length_bytes = 8;

std::uint64_t little_endian(std::span<const std::byte, length_bytes> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

/// A part of the file: where it lies if that is in reach, else read into `room`.
Result<std::span<const std::byte>> part_of(const Bytes& file, std::size_t offset, std::size_t size,
                                           std::vector<std::byte>& room) {
  if (file.is_resident()) {
    ASSAY_TRY(const std::span<const std::byte> all, file.read());
    return all.subspan(offset, size);
  }
  room.resize(size);
  ASSAY_TRY_VOID(file.copy_into(room, offset));
  return std::span<const std::byte>(room);
}

/// The length of the header, as the file's first bytes say it; or what is wrong with it.
std::expected<std::uint64_t, std::string> header_length(const Bytes& file) {
  if (file.len() < length_bytes) {
    return std::unexpected(
        fmt::format("header length: the file has {} bytes, the length alone takes 8; it is cut "
                    "off or no safetensors file",
                    file.len()));
  }
  std::vector<std::byte> room;
  const auto bytes = part_of(file, 0, length_bytes, room);
  if (!bytes) return std::unexpected(describe(bytes.error()));
  const std::uint64_t length = little_endian(bytes.value().first<length_bytes>());
  constexpr std::uint64_t most = SafeTensors::header_bytes_max;
  if (length == 0) return std::unexpected("header length is 0; the shortest header is '{}'");
  if (length > most) {
    return std::unexpected(fmt::format(
        "header length is {}, above the limit of {}; is it a safetensors file?", length, most));
  }
  if (length > file.len() - length_bytes) {
    return std::unexpected(
        fmt::format("header length is {}, but the file has only {} bytes more; if it is cut off, "
                    "fetch it again",
                    length, file.len() - length_bytes));
  }
  return length;
}

std::expected<SafeTensors, std::string> read(const Bytes& file) {
  const auto length = header_length(file);
  if (!length) return std::unexpected(length.error());
  const std::size_t data_offset = length_bytes + *length;
  std::vector<std::byte> room;
  const auto text = part_of(file, length_bytes, *length, room);
  if (!text) return std::unexpected(describe(text.error()));
  const std::string_view json(reinterpret_cast<const char*>(text.value().data()), *length);
  auto header = parse_safetensors_header(json, file.len() - data_offset);
  if (!header) return std::unexpected(std::move(header.error()));
  if (file.is_resident()) {  // a mapped file: is it still the one whose header this was?
    if (const auto same = file.read(); !same) return std::unexpected(describe(same.error()));
  }

  SafeTensors opened;
  opened.metadata = std::move(header->metadata);
  opened.data_offset = data_offset;
  opened.tensors.reserve(header->tensors.size());
  for (TensorFacts& tensor : header->tensors) {
    auto data = file.view(data_offset + tensor.begin, data_offset + tensor.end);
    if (!data) return std::unexpected(describe(data.error()));
    opened.tensors.push_back({.name = std::move(tensor.name),
                              .type = tensor.type,
                              .shape = std::move(tensor.shape),
                              .offset = data_offset + tensor.begin,
                              .data = std::move(data).value()});
  }
  return opened;
}

}  // namespace

const Tensor* SafeTensors::find(std::string_view name) const noexcept {
  for (const Tensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::expected<SafeTensors, InputError> read_safetensors(Bytes file, const std::string& name) {
  if (const auto shared = file.shared(); !shared) {
    return std::unexpected(InputError{name, 0, describe(shared.error())});
  }
  auto opened = read(file);
  if (!opened) return std::unexpected(InputError{name, 0, std::move(opened.error())});
  return std::move(*opened);
}

std::expected<SafeTensors, InputError> open_safetensors(const std::string& path, FileReading how,
                                                        Home& home) {
  auto file = how == FileReading::lazy ? Bytes::from_file(path.c_str(), {}, home)
                                       : Bytes::map_file(path.c_str(), {}, home);
  if (!file) return std::unexpected(InputError{path, 0, describe(file.error())});
  return read_safetensors(std::move(file).value(), path);
}

Result<Bytes> detail::aligned_data(const Bytes& data, std::size_t alignment) {
  ASSAY_TRY_VOID(data.read());
  ASSAY_TRY(Bytes all, data.clone());
  return all.split(0, SplitPolicy::shared, alignment);  // copies only what is misaligned
}

}  // namespace assay::harness
