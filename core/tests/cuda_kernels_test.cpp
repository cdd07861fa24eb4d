// The PTX text: what it says of itself, what NVIDIA's assembler makes of it, and its twin in CUDA
// C++. The tools are a toolkit's; without one, those tests are skipped and say so.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "assay/cuda/abi/kernels.hpp"
#include "assay/harness/process.hpp"

namespace assay::cuda {
namespace {

namespace fs = std::filesystem;

/// Entry name -> widths of the parameters in bytes, as a PTX text declares them.
using Signatures = std::map<std::string, std::vector<int>>;

Signatures signatures_in(const std::string& ptx) {
  static const std::regex entry(R"(\.entry\s+(\w+)\s*\(([^)]*)\))");
  static const std::regex parameter(R"(\.param\s+\.[busf](\d+)\s+\w+)");
  Signatures found;
  for (std::sregex_iterator one(ptx.begin(), ptx.end(), entry), end; one != end; ++one) {
    std::vector<int>& widths = found[(*one)[1]];
    const std::string list = (*one)[2];
    for (std::sregex_iterator each(list.begin(), list.end(), parameter); each != end; ++each) {
      widths.push_back(std::stoi((*each)[1]) / 8);
    }
  }
  return found;
}

Signatures declared() {
  Signatures all;
  for (const abi::KernelSignature& one : abi::kernel_signatures) {
    all[one.entry] = std::vector<int>(one.parameters, 8);
  }
  return all;
}

class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "assay-kernels-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~Scratch() { fs::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name)).rdbuf();
    return text.str();
  }

 private:
  fs::path folder_;
};

harness::ChildResult run(std::vector<std::string> arguments) {
  harness::ChildSpec spec;
  spec.arguments = std::move(arguments);
  spec.timeout = std::chrono::minutes(1);
  return harness::run_child(spec).value();
}

/// sm_80, sm_90 and the lowest of sm_70 and later that this assembler still knows.
std::vector<std::string> targets() {
  const std::string help = run({ASSAY_PTXAS, "--help"}).standard_output;
  static const std::regex target("'sm_([0-9]+)'");
  int lowest = 1000;
  for (std::sregex_iterator one(help.begin(), help.end(), target), end; one != end; ++one) {
    const int number = std::stoi((*one)[1]);
    if (number >= 70) lowest = std::min(lowest, number);
  }
  return {fmt::format("sm_{}", lowest), "sm_80", "sm_90"};
}

TEST(CudaKernels, TheTextDeclaresWhatTheHeaderSays) {
  EXPECT_EQ(signatures_in(abi::kernel_ptx), declared());
  EXPECT_EQ(declared().size(), 4U);
  EXPECT_NE(abi::kernel_ptx_text.find("\n.version 7.0\n.target sm_70\n"), std::string_view::npos);
}

TEST(CudaKernels, TheAssemblerTakesTheText) {
  if (std::string_view(ASSAY_PTXAS).empty()) GTEST_SKIP() << "no ptxas was found: no CUDA toolkit";
  const Scratch scratch;
  const std::string source = scratch.write("kernels.ptx", abi::kernel_ptx);
  for (const std::string& target : targets()) {
    const auto done = run({ASSAY_PTXAS, "-arch=" + target, "-o", scratch.path("out"), source});
    EXPECT_TRUE(done.succeeded()) << target << ": " << done.standard_error;
    fmt::print("assembled for {}\n", target);
  }
  std::string damaged = abi::kernel_ptx;
  damaged.replace(damaged.find("st.global.u64"), 13, "st.global.u63");
  const std::string bad = scratch.write("damaged.ptx", damaged);
  EXPECT_FALSE(run({ASSAY_PTXAS, "-arch=sm_80", "-o", scratch.path("bad"), bad}).succeeded());
}

TEST(CudaKernels, TheTwinInCudaHasTheSameEntries) {
  if (std::string_view(ASSAY_NVCC).empty()) GTEST_SKIP() << "no nvcc was found: no CUDA toolkit";
  const Scratch scratch;
  const auto compile = [&](const char* kind, const char* target, const std::string& name) {
    const auto done = run({ASSAY_NVCC, "-std=c++17", kind, std::string("-arch=") + target, "-o",
                           scratch.path(name), ASSAY_KERNELS_CU});
    EXPECT_TRUE(done.succeeded()) << done.standard_error;
  };
  compile("-ptx", "sm_80", "twin.ptx");
  compile("-cubin", "sm_90", "twin.cubin");
  EXPECT_EQ(signatures_in(scratch.read("twin.ptx")), declared());
  EXPECT_TRUE(scratch.read("twin.cubin")
                  .starts_with("\x7f"
                               "ELF"));
}

}  // namespace
}  // namespace assay::cuda
