#include "ImitatedKernels.h"

#include "ImitatedCuda.h"
#include "RecordedKernels.h"
#include "device/Device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/CPUAllocator.h>

namespace fsdp::imitation {

namespace {

class ImitatedKernels final : public Kernels {
public:
  explicit ImitatedKernels(Device &gpu) : gpu(gpu) { recordKernels(); }

  c10::Device device() const override { return c10::kCPU; }
  c10::Allocator &allocator() const override {
    return *c10::GetDefaultCPUAllocator();
  }
  at::Generator makeGenerator(uint64_t seed) const override {
    return at::detail::createCPUGenerator(seed);
  }

  std::shared_ptr<void> enter() override {
    useStream(0);
    return std::shared_ptr<void>(nullptr, [this](void *) { inCaller.reset(); });
  }

  void useStream(unsigned stream) override {
    auto next = static_cast<cudaStream_t>(gpu.stream(stream));
    inCaller.reset(); // the stream before goes on by itself
    inCaller = std::make_unique<InCaller>(next);
    recordOn(next);
  }

  void seedFromMemory(at::Generator &, void *seed) override {
    recordSeed(static_cast<const uint64_t *>(seed));
  }

  uint64_t waits() const override { return 0; }
  uint64_t keptBytes() const override { return 0; }
  void releaseCached() override {}

private:
  Device &gpu;
  std::unique_ptr<InCaller> inCaller;
};

} // namespace

std::unique_ptr<Kernels> openKernels(Device &device) {
  return std::make_unique<ImitatedKernels>(device);
}

} // namespace fsdp::imitation
