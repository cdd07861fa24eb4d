// Safetensors: a file of tensors, handed out as one Bytes each (docs/formats.md).
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "assay/buffer/bytes.hpp"
#include "assay/harness/input_error.hpp"

namespace assay::harness {

enum class TensorType : std::uint8_t {
#define ASSAY_TENSOR_TYPE(name, text, bits, kind) name,
#include "assay/harness/tensor_types.def"
#undef ASSAY_TENSOR_TYPE
};

/// What a file calls the type, such as "F32".
[[nodiscard]] const char* name_of(TensorType type) noexcept;

/// Can the elements be read as `E`: the C++ type of the same kind and size, or an unsigned integer
/// of the same size that takes them as bits? Elements of 4 and 6 bits: as packed bytes.
template <PlainElement E>
[[nodiscard]] bool holds(TensorType type) noexcept;

struct Tensor {
  std::string name;
  TensorType type{};
  std::vector<std::uint64_t> shape;  ///< row-major; empty for a scalar
  std::uint64_t offset = 0;          ///< of its first byte in the file
  Bytes data;                        ///< little-endian; a view of the file
};

/// The elements of a tensor where `E` can be read.
template <PlainElement E>
struct TensorElements {
  Bytes data;                      ///< keeps them alive
  std::span<const E> elements;     ///< on the host's byte order, which is the file's
  std::uint64_t bytes_copied = 0;  ///< 0 if they were aligned where they are
};

/// An opened file: what its header says, and a view for every tensor.
struct SafeTensors {
  static constexpr std::uint64_t header_bytes_max = 100'000'000;  ///< as upstream has it

  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<Tensor> tensors;    ///< in the order of their bytes
  std::uint64_t data_offset = 0;  ///< of the first tensor in the file; what was read to get here

  /// The tensor of that name, or null.
  [[nodiscard]] const Tensor* find(std::string_view name) const noexcept;
};

/// Reads the header of a whole file and makes a view per tensor. `file` becomes shared; of one
/// that is not resident only the header is read. **Errors** whatever the header says that is not
/// so, by the name of its field, before any view is made; those of the file. **Cost** no payload
/// byte is read or copied.
[[nodiscard]] std::expected<SafeTensors, InputError> read_safetensors(Bytes file,
                                                                      const std::string& name);

/// How an opened file comes into memory.
enum class FileReading : std::uint8_t {
  lazy,    ///< each tensor is read when it is first needed, into a block of `home`
  mapped,  ///< the file is mapped: nothing is read, and a tensor lies where the file has it
};

/// As read_safetensors, of the file at `path`. **Errors** also those of opening it.
[[nodiscard]] std::expected<SafeTensors, InputError> open_safetensors(
    const std::string& path, FileReading how = FileReading::lazy, Home& home = Home::host());

namespace detail {
/// The bytes at an address aligned to `alignment`.
[[nodiscard]] Result<Bytes> aligned_data(const Bytes& data, std::size_t alignment);
[[nodiscard]] bool holds_element(TensorType type, std::size_t size, bool is_signed,
                                 bool is_floating) noexcept;
}  // namespace detail

template <PlainElement E>
bool holds(TensorType type) noexcept {
  static_assert(std::is_arithmetic_v<E> || std::is_same_v<E, std::byte>);
  return detail::holds_element(type, sizeof(E), std::is_signed_v<E>, std::is_floating_point_v<E>);
}

/// The elements, read if they were not resident. They stay where they are if they are aligned for
/// `E` there; else they are copied once, and the copy is told. **Errors** invalid_argument unless
/// `holds<E>(tensor.type)`; those of the file and of its home.
template <PlainElement E>
[[nodiscard]] Result<TensorElements<E>> elements_of(const Tensor& tensor) {
  if (!holds<E>(tensor.type)) {
    Error error = Error::make(ErrorCode::invalid_argument, "elements_of", "", sizeof(E));
    error.native_text = name_of(tensor.type);
    return error;
  }
  const std::uint64_t copied = payload_bytes_copied();
  ASSAY_TRY(Bytes data, detail::aligned_data(tensor.data, alignof(E)));
  const auto* const first = reinterpret_cast<const E*>(data.data());
  const std::size_t count = data.len() / sizeof(E);
  return TensorElements<E>{std::move(data), {first, count}, payload_bytes_copied() - copied};
}

}  // namespace assay::harness
