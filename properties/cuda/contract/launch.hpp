// assay's kernels as the tests launch them: by the table, with no wrapper between.
#pragma once

#include <array>
#include <cstring>

#include "assay/cuda/abi/kernels.hpp"
#include "suite/run.hpp"

namespace assay::conformance {

[[nodiscard]] inline abi::Module load_kernels(Run& run) {
  abi::Module module = nullptr;
  run.must(run.cu.cuModuleLoadData(&module, abi::kernel_ptx), "preparation: cuModuleLoadData");
  return module;
}

[[nodiscard]] inline abi::Function kernel(Run& run, const char* entry) {
  abi::Function function = nullptr;
  run.must(run.cu.cuModuleGetFunction(&function, load_kernels(run), entry),
           "preparation: cuModuleGetFunction");
  return function;
}

struct Shape {
  unsigned blocks = 1;
  unsigned threads = 32;
};

template <class Parameters>
[[nodiscard]] Status launch(Run& run, abi::Function function, Parameters& parameters,
                            abi::Stream stream, Shape shape = {}) {
  constexpr std::size_t count = sizeof(Parameters) / sizeof(std::uint64_t);
  std::array<void*, count> pointers{};
  auto* const words = reinterpret_cast<std::uint64_t*>(&parameters);
  for (std::size_t i = 0; i < count; ++i) pointers[i] = words + i;
  return run.cu.cuLaunchKernel(function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream,
                               pointers.data(), nullptr);
}

/// A kernel that occupies the device until it is let go; it gives up after 5 s.
class Spin {
 public:
  Spin(Run& run, abi::Stream stream);
  ~Spin() { let_go(); }
  Spin(const Spin&) = delete;
  Spin& operator=(const Spin&) = delete;
  void let_go() noexcept;

 private:
  std::uint32_t* flag_;
};

}  // namespace assay::conformance
