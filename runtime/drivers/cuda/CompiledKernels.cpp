#include "drivers/cuda/CompiledKernels.h"

#include "Error.h"
#include "drivers/cuda/CheckCuda.h"

#include <iterator>
#include <memory>
#include <nvrtc.h>

namespace fsdp {

namespace {

struct ProgramDeleter {
  void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
};
using Program =
    std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, ProgramDeleter>;

std::string logOf(nvrtcProgram program) {
  size_t size = 0;
  if (nvrtcGetProgramLogSize(program, &size) || size == 0)
    return "no message";
  std::string log(size - 1, '\0'); // without the final zero
  return nvrtcGetProgramLog(program, log.data()) ? "no message" : log;
}

/// Of the calling thread's GPU: 90 is 9.0.
int capabilityAtHand() {
  int device = 0, major = 0, minor = 0;
  const char *what = "ask for the GPU's compute capability";
  checkCuda(cudaGetDevice(&device), what);
  checkCuda(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      what);
  checkCuda(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
      what);
  return 10 * major + minor;
}

} // namespace

std::string compileForGpu(const std::string &name, const std::string &source,
                          int capability) {
  auto check = [&](nvrtcResult result, nvrtcProgram program) {
    if (result == NVRTC_SUCCESS)
      return;
    std::string target = " for GPUs of compute capability " +
                         std::to_string(capability / 10) + "." +
                         std::to_string(capability % 10);
    throw Error(E::CudaCall,
                "cannot compile the kernels of " + name + target + ": " +
                    nvrtcGetErrorString(result) +
                    (program ? "\n" + logOf(program) : std::string()));
  };
  nvrtcProgram made = nullptr;
  check(nvrtcCreateProgram(&made, source.c_str(), (name + ".cu").c_str(), 0,
                           nullptr, nullptr),
        nullptr);
  Program program(made);
  std::string architecture =
      "--gpu-architecture=sm_" + std::to_string(capability);
  // Functions are the GPU's unless they say otherwise.
  const char *options[] = {architecture.c_str(), "--std=c++17",
                           "--device-as-default-execution-space"};
  check(nvrtcCompileProgram(made, std::size(options), options), made);
  size_t size = 0;
  check(nvrtcGetCUBINSize(made, &size), made);
  std::string code(size, '\0');
  check(nvrtcGetCUBIN(made, code.data()), made);
  return code;
}

cudaLibrary_t CompiledKernels::load(int capability) {
  std::lock_guard<std::mutex> lock(mutex);
  auto [known, isNew] = libraries.try_emplace(capability, nullptr);
  if (isNew) {
    std::string code = compileForGpu(name, source, capability);
    cudaError_t status = cudaLibraryLoadData(
        &known->second, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (status != cudaSuccess)
      libraries.erase(known);
    checkCuda(status, "load the kernels of " + name);
  }
  return known->second;
}

void CompiledKernels::launch(const char *kernel, dim3 blocks, dim3 threads,
                             void **arguments, cudaStream_t stream) {
  cudaKernel_t function = nullptr;
  std::string what = std::string("launch ") + kernel;
  checkCuda(cudaLibraryGetKernel(&function, load(capabilityAtHand()), kernel),
            what);
  checkCuda(cudaLaunchKernel(reinterpret_cast<const void *>(function), blocks,
                             threads, arguments, 0, stream),
            what);
}

} // namespace fsdp
