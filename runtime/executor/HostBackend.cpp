#include "executor/HostBackend.h"

#include "Error.h"
#include "executor/PlacingAllocator.h"

#include <ATen/CPUGeneratorImpl.h>

namespace fsdp {

namespace {

class HostKernels final : public Kernels {
public:
  c10::Device device() const override { return c10::kCPU; }
  c10::Allocator &allocator() const override {
    return defaultAllocator(c10::kCPU);
  }
  at::Generator makeGenerator(uint64_t seed) const override {
    return at::detail::createCPUGenerator(seed);
  }
  std::shared_ptr<void> enter() override { return nullptr; }
  void useStream(unsigned) override {}
  void seedFromMemory(at::Generator &, void *) override {}
  uint64_t waits() const override { return 0; }
  uint64_t keptBytes() const override { return 0; }
  void releaseCached() override {}
};

} // namespace

Kernels &hostKernels() {
  static HostKernels kernels;
  return kernels;
}

DeviceMemory allocateHostScratch(uint64_t bytes) {
  auto memory = std::make_shared<HostMemory>(bytes, /*guard=*/0);
  char *data = memory->data();
  return {{data, [memory](char *) {}}, bytes};
}

std::unique_ptr<ArenaMemory> HostBackend::allocateHost(uint64_t bytes,
                                                       uint64_t guard, bool) {
  return std::make_unique<PlainArenaMemory>(bytes, guard);
}

std::unique_ptr<Streams> HostBackend::makeStreams(unsigned, unsigned) {
  return kind == HostStreamKind::Threads ? makeThreadStreams(communicator)
                                         : makeInlineStreams(communicator);
}

std::string HostBackend::whyNotCaptured() const {
  return "the plan is for CPUs; compile it for device=cuda";
}

void HostBackend::beginCapture() {
  throw Error(E::GpuUnsupported, whyNotCaptured());
}

std::unique_ptr<DeviceGraph> HostBackend::endCapture() {
  throw Error(E::GpuUnsupported, whyNotCaptured());
}

} // namespace fsdp
