// Modules and kernels: the one PTX text of assay, whose four kernels the model runs too.
#include <vector>

#include "contract/groups.hpp"
#include "contract/launch.hpp"

namespace assay::conformance {
namespace {

using enum Source;

constexpr std::size_t words = 1000;

std::vector<std::uint64_t> read_words(Run& run, DevicePointer address, std::size_t count) {
  run.wait();
  std::vector<std::uint64_t> values(count);
  run.must(run.cu.cuMemcpyDtoH_v2(values.data(), address, count * 8), "cuMemcpyDtoH");
  return values;
}

void load(Run& run) {
  abi::Module module = nullptr;
  run.code("cuModuleLoadData", run.cu.cuModuleLoadData(&module, abi::kernel_ptx));
  abi::Function function = nullptr;
  for (const auto& signature : abi::kernel_signatures) {
    run.must(run.cu.cuModuleGetFunction(&function, module, signature.entry), "cuModuleGetFunction");
  }
  run.code("cuModuleUnload", run.cu.cuModuleUnload(module));
}

void fill(Run& run) {
  const DevicePointer address = run.device(words * 8 + 8);
  run.fill(address, 0, words * 8 + 8);
  abi::FillParameters parameters{address, words, 100, 3};
  run.code("cuLaunchKernel",
           launch(run, kernel(run, abi::FillParameters::entry), parameters, run.stream(), {3, 64}));
  const auto seen = read_words(run, address, words + 1);
  bool right = true;
  for (std::size_t i = 0; i < words; ++i) right = right && seen[i] == 100 + 3 * i;
  run.holds("each word has its value", right);
  run.holds("the word after the last is as before", seen[words] == 0);
}

void fill_managed(Run& run) {
  const DevicePointer address = run.managed(words * 8);
  abi::FillParameters parameters{address, words, 7, 0};
  run.code("cuLaunchKernel",
           launch(run, kernel(run, abi::FillParameters::entry), parameters, run.stream()));
  run.wait();
  run.holds("the host sees it", reinterpret_cast<std::uint64_t*>(address)[words - 1] == 7);
}

void checksum(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.device(words * 8);
  const DevicePointer result = run.device(8);
  run.fill(result, 0, 8);
  abi::FillParameters values{address, words, 5, 9};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), values, stream, {2, 32}), "fill");
  abi::ChecksumParameters parameters{address, words, result};
  run.code("cuLaunchKernel",
           launch(run, kernel(run, abi::ChecksumParameters::entry), parameters, stream, {4, 64}));
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < words; ++i) expected += (5 + 9 * i) * (2 * i + 1);
  run.holds("the sum is that of the words", read_words(run, result, 1)[0] == expected);
}

void touch(Run& run) {
  const DevicePointer address = run.device(4096);
  const DevicePointer sum = run.device(8);
  run.fill(address, 3, 4096);
  run.fill(sum, 0, 8);
  abi::TouchParameters parameters{address, 4096, 1024, 4, sum};
  run.code("cuLaunchKernel",
           launch(run, kernel(run, abi::TouchParameters::entry), parameters, run.stream()));
  run.holds("the sum is that of the bytes read", read_words(run, sum, 1)[0] == 12);
  run.holds("the bytes touched have grown",
            run.filled(address, 7, 1) && run.filled(address + 3072, 7, 1));
  run.holds("those between have not", run.filled(address + 1, 3, 1023));
}

void parameters_are_copied(Run& run) {
  const abi::Stream stream = run.stream();
  const DevicePointer address = run.device(words * 8);
  run.fill(address, 0, words * 8);
  Gate gate(run, stream);
  abi::FillParameters parameters{address, words, 5, 0};
  run.must(launch(run, kernel(run, abi::FillParameters::entry), parameters, stream), "launch");
  parameters.value = 99;
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the kernel saw the value at the call", read_words(run, address, 1)[0] == 5);
}

void asynchronous(Run& run) {
  const abi::Stream stream = run.stream();
  std::byte* const target = run.pinned(page, abi::host_alloc_device_map);
  auto* const word = reinterpret_cast<volatile std::uint64_t*>(target);
  *word = 1;
  Gate gate(run, stream);
  abi::FillParameters parameters{address_of(target), 1, 2, 0};
  run.code("cuLaunchKernel",
           launch(run, kernel(run, abi::FillParameters::entry), parameters, stream));
  run.holds("it returned before the kernel ran", *word == 1);
  gate.open();
  run.must(run.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
  run.holds("the wait sees it done", *word == 2);
}

void spin(Run& run) {
  const abi::Stream stream = run.stream();
  Spin busy(run, stream);
  run.code("while it spins", run.cu.cuStreamQuery(stream));
  busy.let_go();
  run.code("once it is let go", run.cu.cuStreamSynchronize(stream));
}

Status launch_shape(Run& run, unsigned blocks, unsigned threads) {
  abi::FillParameters parameters{run.device(64), 1, 0, 0};
  return launch(run, kernel(run, abi::FillParameters::entry), parameters, run.stream(),
                {blocks, threads});
}

Tests refusals() {
  const Needs needs = having(cuda::Feature::tests);
  return {
      answers(
          "kernel.no_module", "what is no PTX is no module", {invalid_ptx, invalid_image}, hdr,
          [](Run& run) {
            abi::Module module = nullptr;
            return run.cu.cuModuleLoadData(&module, "this is no PTX");
          },
          needs),
      answers(
          "kernel.unknown_entry", "a kernel must be in the module", {not_found}, hdr,
          [](Run& run) {
            abi::Function function = nullptr;
            return run.cu.cuModuleGetFunction(&function, load_kernels(run), "no_such_kernel");
          },
          needs),
      answers(
          "kernel.no_blocks", "a grid has a block", {invalid_value}, hdr,
          [](Run& run) { return launch_shape(run, 0, 32); }, needs),
      answers(
          "kernel.no_threads", "a block has a thread", {invalid_value}, hdr,
          [](Run& run) { return launch_shape(run, 1, 0); }, needs),
      answers(
          "kernel.too_many_threads", "and not more than a device has", {invalid_value}, hdr,
          [](Run& run) { return launch_shape(run, 1, 100'000); }, needs),
      answers(
          "kernel.no_arguments", "a kernel has its arguments", {invalid_value}, hdr,
          [](Run& run) {
            return run.cu.cuLaunchKernel(kernel(run, abi::FillParameters::entry), 1, 1, 1, 1, 1, 1,
                                         0, run.stream(), nullptr, nullptr);
          },
          needs + model_only("a driver may read them from null")),
      answers(
          "kernel.two_dimensions", "the model runs grids of one dimension", {not_supported}, model,
          [](Run& run) {
            abi::FillParameters fill_one{run.device(64), 1, 0, 0};
            void* pointers[] = {&fill_one.address, &fill_one.words, &fill_one.value,
                                &fill_one.step};
            return run.cu.cuLaunchKernel(kernel(run, abi::FillParameters::entry), 1, 2, 1, 1, 1, 1,
                                         0, run.stream(), pointers, nullptr);
          },
          needs + model_only("a driver runs any grid")),
      answers(
          "kernel.unloaded_module", "an unloaded module has no kernels", {invalid_handle}, hdr,
          [](Run& run) {
            const abi::Module module = load_kernels(run);
            run.must(run.cu.cuModuleUnload(module), "cuModuleUnload");
            abi::Function function = nullptr;
            return run.cu.cuModuleGetFunction(&function, module, abi::FillParameters::entry);
          },
          needs + model_only("the use of a dead handle is undefined")),
      answers(
          "kernel.null_function", "no kernel cannot be launched", {invalid_handle, invalid_value},
          hdr,
          [](Run& run) {
            return run.cu.cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, run.stream(), nullptr,
                                         nullptr);
          },
          needs),
      answers(
          "kernel.other_text", "the model runs assay's text alone, and says so", {invalid_ptx},
          model,
          [](Run& run) {
            abi::Module module = nullptr;
            return run.cu.cuModuleLoadData(
                &module,
                ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry other()\n"
                "{\n  ret;\n}\n");
          },
          needs + model_only("a driver compiles any PTX")),
      answers(
          "kernel.none_current", "without a current context no module is loaded", {invalid_context},
          hdr,
          [](Run& run) {
            abi::Module module = nullptr;
            return run.cu.cuModuleLoadData(&module, abi::kernel_ptx);
          },
          from(Start::initialised) + needs),
  };
}

}  // namespace

Tests kernel_tests() {
  const Needs needs = having(cuda::Feature::tests);
  Tests tests = {
      {"kernel.load",
       "the PTX text is a module with four kernels",
       needs,
       {succeeds("cuModuleLoadData", hdr), succeeds("cuModuleUnload", hdr)},
       load},
      {"kernel.fill",
       "fill writes every word and no more",
       needs,
       {succeeds("cuLaunchKernel", hdr), holds("each word has its value", hdr),
        holds("the word after the last is as before", hdr)},
       fill},
      {"kernel.fill_managed",
       "a kernel writes managed memory",
       needs + with(DeviceAttribute::managed_memory),
       {succeeds("cuLaunchKernel", hdr), holds("the host sees it", hdr)},
       fill_managed},
      {"kernel.checksum",
       "checksum sums up what fill wrote",
       needs,
       {succeeds("cuLaunchKernel", hdr), holds("the sum is that of the words", hdr)},
       checksum},
      {"kernel.touch",
       "touch reads and writes with a stride",
       needs,
       {succeeds("cuLaunchKernel", hdr), holds("the sum is that of the bytes read", hdr),
        holds("the bytes touched have grown", hdr), holds("those between have not", hdr)},
       touch},
      {"kernel.parameters_are_copied",
       "parameters are those at the launch",
       needs,
       {holds("the kernel saw the value at the call", hdr)},
       parameters_are_copied},
      {"kernel.asynchronous",
       "a launch waits for nothing",
       needs,
       {succeeds("cuLaunchKernel", hdr), holds("it returned before the kernel ran", hdr),
        holds("the wait sees it done", hdr)},
       asynchronous},
      {"kernel.spin",
       "spin occupies its stream until it is let go",
       needs,
       {code("while it spins", {not_ready}, hdr), succeeds("once it is let go", hdr)},
       spin},
  };
  for (Test& test : refusals()) tests.push_back(std::move(test));
  return tests;
}

}  // namespace assay::conformance
