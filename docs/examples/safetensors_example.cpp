// Opens a safetensors file and hands out every tensor, lazily or from a mapping: what is read and
// what is copied on the way.
//
// usage: safetensors-example FILE
// exit: 0 good; 2 usage, or a file that cannot be read
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "assay/harness/safetensors.hpp"

namespace {

using namespace assay;
using namespace assay::harness;

/// Reads the tensor; returns the bytes that had to be copied, or prints why it cannot be read.
std::optional<std::uint64_t> copied_by_reading(const Tensor& tensor) {
  const auto report = [&](const auto& elements) -> std::optional<std::uint64_t> {
    if (elements) return elements.value().bytes_copied;
    fmt::print(stderr, "{}: {}\n", tensor.name, describe(elements.error()));
    return std::nullopt;
  };
  if (holds<float>(tensor.type)) return report(elements_of<float>(tensor));
  if (holds<std::int64_t>(tensor.type)) return report(elements_of<std::int64_t>(tensor));
  return report(elements_of<std::uint8_t>(tensor));
}

bool show(const char* path, FileReading how) {
  const SourceReads before = source_reads();
  const auto read_so_far = [&] { return source_reads().bytes - before.bytes; };
  const auto file = open_safetensors(path, how);
  if (!file) {
    fmt::print(stderr, "safetensors-example: {}\n", file.error().describe());
    return false;
  }
  fmt::print("{}: {} tensors, {} bytes read\n", how == FileReading::lazy ? "lazy" : "mapped",
             file->tensors.size(), read_so_far());
  for (const Tensor& tensor : file->tensors) {
    const std::uint64_t at = read_so_far();
    const auto copied = copied_by_reading(tensor);
    if (!copied) return false;
    fmt::print("  {:<26} {:<4} [{}]  {} bytes, read {}, copied {}\n", tensor.name,
               name_of(tensor.type), fmt::join(tensor.shape, ", "), tensor.data.len(),
               read_so_far() - at, *copied);
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 || std::string_view(arguments[1]).starts_with('-')) {
    fmt::print(stderr, "usage: safetensors-example FILE\n");
    return 2;
  }
  return show(arguments[1], FileReading::lazy) && show(arguments[1], FileReading::mapped) ? 0 : 2;
}
