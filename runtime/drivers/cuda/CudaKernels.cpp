// PyTorch's kernels for a GPU. With CudaAllocator, all of a library that links
// PyTorch's CUDA half.
#include "Error.h"
#include "device/Device.h"
#include "device/Kernels.h"
#include "device/TensorAt.h"
#include "drivers/cuda/CudaAllocator.h"
#include "drivers/cuda/CudaLibrary.h"
#include "drivers/cuda/CudaOperators.h"
#include "plan/FormatText.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

namespace fsdp {

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

/// Puts the hooks before PyTorch's allocator, once; returns PyTorch's.
caching::CUDAAllocator &placeHooks(const MemoryHooks &hooks) {
  // Never destroyed: tensors may be freed after main.
  static caching::CUDAAllocator &own = *caching::get();
  static auto *placing = new CudaAllocator(own, hooks);
  caching::allocator.store(placing);
  c10::SetAllocator(c10::kCUDA, placing, /*priority=*/255);
  return own;
}

/// A generator whose state is at hand: PyTorch's own reads its seed from memory
/// in graphs of PyTorch's only.
struct Generator final : at::CUDAGeneratorImpl {
  using State = c10::intrusive_ptr<at::CUDAGeneratorState>;
  Generator(c10::DeviceIndex device, State state)
      : at::CUDAGeneratorImpl(device, state), state(std::move(state)) {}
  State state;
};

thread_local uint64_t waitsOfThread = 0;

/// PyTorch warns of an operator that waits for the device, where it is asked
/// to.
struct WaitCounter final : c10::WarningHandler {
  void process(const c10::Warning &warning) override {
    if (warning.msg() == "called a synchronizing CUDA operation")
      ++waitsOfThread;
    else
      c10::WarningHandler::process(warning);
  }
};

/// What the calling thread waits is counted for as long as this lives.
class CountedWaits {
public:
  CountedWaits()
      : handler(c10::WarningUtils::get_warning_handler()),
        mode(c10::cuda::warning_state().get_sync_debug_mode()) {
    static auto *counter = new WaitCounter;
    c10::WarningUtils::set_warning_handler(counter); // the calling thread's
    c10::cuda::warning_state().set_sync_debug_mode(
        c10::cuda::SyncDebugMode::L_WARN);
  }
  ~CountedWaits() {
    c10::WarningUtils::set_warning_handler(handler);
    c10::cuda::warning_state().set_sync_debug_mode(mode);
  }
  CountedWaits(const CountedWaits &) = delete;
  CountedWaits &operator=(const CountedWaits &) = delete;

private:
  c10::WarningHandler *handler;
  c10::cuda::SyncDebugMode mode;
};

/// The calling thread launches on a stream of ours, in the order of its own.
class Entered {
public:
  explicit Entered(const c10::cuda::CUDAStream &ours)
      : gpu(ours.device_index()), ours(ours),
        theirs(c10::cuda::getCurrentCUDAStream(ours.device_index())) {
    follow(ours, theirs);
    c10::cuda::setCurrentCUDAStream(ours);
  }
  ~Entered() {
    c10::cuda::setCurrentCUDAStream(theirs);
    try {
      follow(theirs, ours);
    } catch (const c10::Error &) {
      // What went wrong on the device has been reported where it did.
    }
  }
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;

private:
  /// What comes on a stream is behind what is on the other one so far.
  static void follow(const c10::cuda::CUDAStream &stream,
                     const c10::cuda::CUDAStream &other) {
    at::cuda::CUDAEvent event;
    event.record(other);
    event.block(stream);
  }

  c10::cuda::CUDAGuard gpu;
  CountedWaits counted;
  c10::cuda::CUDAStream ours, theirs;
};

class CudaKernels final : public Kernels {
public:
  CudaKernels(Device &gpu, const MemoryHooks &hooks)
      : gpu(gpu), place(c10::kCUDA, gpu.index()), own(placeHooks(hooks)) {
    at::globalContext().lazyInitDevice(c10::kCUDA);
    auto entered = enter();
    registerCudaOperators();
    zero = gpu.allocate(sizeof(int64_t));
    // What would be made by the first operator that needs it, and be kept.
    at::cuda::getCurrentCUDABlasHandle();
    at::cuda::getCUDABlasLtWorkspace();
    at::cuda::detail::getDefaultCUDAGenerator(place.index());
  }

  c10::Device device() const override { return place; }
  c10::Allocator &allocator() const override { return own; }

  at::Generator makeGenerator(uint64_t seed) const override {
    return at::make_generator<Generator>(
        place.index(), c10::make_intrusive<at::CUDAGeneratorState>(seed));
  }

  std::shared_ptr<void> enter() override {
    return std::make_shared<Entered>(streamOf(0));
  }

  void useStream(unsigned stream) override {
    c10::cuda::setCurrentCUDAStream(streamOf(stream));
  }

  void seedFromMemory(at::Generator &generator, void *seed) override {
    at::CUDAGeneratorState &state = *generator.get<Generator>()->state;
    state.capturing_ = seed != nullptr;
    // The first number of the seed, as after set_current_seed.
    state.offset_intragraph_ = 0;
    state.seed_extragraph_ = seed ? number(seed) : at::TensorBase();
    state.offset_extragraph_ = seed ? number(zero.data()) : at::TensorBase();
  }

  uint64_t waits() const override { return waitsOfThread; }

  uint64_t keptBytes() const override {
    constexpr auto all =
        static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return own.getDeviceStats(place.index()).reserved_bytes[all].current;
  }

  void releaseCached() override { own.emptyCache(); }

private:
  c10::cuda::CUDAStream streamOf(unsigned stream) const {
    return c10::cuda::getStreamFromExternal(
        static_cast<cudaStream_t>(gpu.stream(stream)), place.index());
  }

  /// The integer at an address of the device.
  at::TensorBase number(void *address) const {
    return tensorAt(address, 1, at::kLong, place);
  }

  Device &gpu;
  c10::Device place;
  caching::CUDAAllocator &own;
  DeviceMemory zero; // an int64_t
};

Kernels *open(Device &device, const MemoryHooks &hooks) {
  try {
    return new CudaKernels(device, hooks);
  } catch (const c10::Error &error) {
    throw Error(E::GpuMissing,
                "PyTorch cannot use GPU " + std::to_string(device.index()) +
                    ": " + firstLine(error.what_without_backtrace()) +
                    "; see nvidia-smi, or compile the plan for device=cpu");
  }
}

} // namespace

extern "C" {
extern const CudaKernelsLibrary fsdp_cuda_kernels_library
    __attribute__((visibility("default")));
const CudaKernelsLibrary fsdp_cuda_kernels_library = {open};
}

} // namespace fsdp
