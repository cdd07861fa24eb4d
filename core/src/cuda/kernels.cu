// The kernels of assay/cuda/abi/kernels.hpp again, in CUDA C++: the readable form of the PTX text,
// compiled by nvcc where there is one and compared with it. assay itself runs the text.
#include <cstdint>

namespace {

__device__ std::uint64_t first() {
  return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__device__ std::uint64_t total() {
  return std::uint64_t{gridDim.x} * blockDim.x;
}

/// nvcc knows atomicAdd for unsigned long long, which has the same 64 bits.
__device__ void add_atomically(std::uint64_t* sum, std::uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), value);
}

__device__ std::uint64_t time_ns() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace

extern "C" __global__ void assay_fill(std::uint64_t* address, std::uint64_t words,
                                      std::uint64_t value, std::uint64_t step) {
  for (std::uint64_t i = first(); i < words; i += total()) address[i] = value + i * step;
}

extern "C" __global__ void assay_touch(std::uint8_t* address, std::uint64_t bytes,
                                       std::uint64_t stride, std::uint64_t add,
                                       std::uint64_t* sum) {
  std::uint64_t read = 0;
  for (std::uint64_t at = first() * stride; at < bytes; at += total() * stride) {
    const std::uint8_t byte = *static_cast<volatile std::uint8_t*>(address + at);
    read += byte;
    if ((add & 255) != 0) address[at] = static_cast<std::uint8_t>(byte + add);
  }
  if (sum != nullptr) add_atomically(sum, read);
}

extern "C" __global__ void assay_checksum(const std::uint64_t* address, std::uint64_t words,
                                          std::uint64_t* result) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = first(); i < words; i += total()) sum += address[i] * (2 * i + 1);
  add_atomically(result, sum);
}

extern "C" __global__ void assay_spin(const std::uint32_t* flag, std::uint64_t value,
                                      std::uint64_t limit_ns, std::uint32_t* result) {
  if ((threadIdx.x | blockIdx.x) != 0) return;
  const std::uint64_t start = time_ns();
  std::uint32_t outcome = 0;
  while (outcome == 0) {
    std::uint32_t seen = 0;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    if (static_cast<std::int32_t>(seen - static_cast<std::uint32_t>(value)) >= 0) {
      outcome = 1;
    } else if (time_ns() - start >= limit_ns) {
      outcome = 2;
    } else {
      __nanosleep(500);
    }
  }
  if (result != nullptr) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(result), "r"(outcome) : "memory");
  }
}
