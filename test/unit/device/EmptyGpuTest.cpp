// Tests what CudaKernels does on the host, with PyTorch's own CUDA half and a
// GPU whose kernels do nothing: on which stream, with what memory and with
// which seeds they are launched.
#include "gpu/imitation/EmptyGpu.h"

#include "TensorFunctions.h"
#include "device/Device.h"
#include "device/Kernels.h"
#include "operators/Operators.h"

#include <ATen/cuda/PhiloxCudaState.h>
#include <cmath>
#include <gtest/gtest.h>

using namespace fsdp;

namespace {

/// What a plan lends while `lending`.
bool lending = false;
char block[1 << 16];
int released = 0;

const MemoryHooks hooks = {[](size_t bytes) {
                             if (!lending || bytes > sizeof(block))
                               return c10::DataPtr();
                             return c10::DataPtr(
                                 block, block, [](void *) {},
                                 c10::Device(c10::kCUDA, 0));
                           },
                           [](void *pointer) {
                             released += pointer == block;
                             return pointer == block;
                           }};

class EmptyGpu : public testing::Test {
protected:
  EmptyGpu() { imitation::onLaunch(nullptr); }

  /// The stream of the next kernel that `work` launches.
  template <typename Work> void *streamOf(Work work) {
    void *stream = nullptr;
    imitation::onLaunch([&](cudaStream_t used, void **) { stream = used; });
    work();
    return stream;
  }

  /// What random numbers are drawn from.
  at::PhiloxCudaState draw(const at::Generator &generator) {
    at::PhiloxCudaState state;
    imitation::onLaunch([&](cudaStream_t, void **arguments) {
      state = *static_cast<at::PhiloxCudaState *>(arguments[1]);
    });
    numbers.uniform_(0, 1, generator);
    return state;
  }

  std::unique_ptr<Device> device = openCudaDevice(0, 2);
  std::unique_ptr<Kernels> kernels = openCudaKernels(*device, hooks);
  std::shared_ptr<void> entered = kernels->enter();
  at::Tensor numbers = at::empty({1000}, at::TensorOptions(kernels->device()));
};

} // namespace

TEST_F(EmptyGpu, KernelsAreLaunchedOnTheStreamInUse) {
  auto add = [&] { numbers.add_(1); };
  EXPECT_EQ(streamOf(add), device->stream(0));
  {
    UseStream other(*kernels, 1);
    EXPECT_EQ(streamOf(add), device->stream(1));
  }
  EXPECT_EQ(streamOf(add), device->stream(0));
}

TEST_F(EmptyGpu, AThreadThatHasNotEnteredHasItsOwnSettings) {
  entered.reset();
  uint64_t before = kernels->waits();
  EXPECT_EQ(streamOf([&] { numbers.add_(1); }), nullptr);
  numbers.sum().item();
  EXPECT_EQ(kernels->waits(), before);
}

TEST_F(EmptyGpu, WorkspacesOfMatrixProductsAreKeptFromTheBeginning) {
  EXPECT_GT(imitation::cublasWorkspaceBytes(), 0u);
  EXPECT_GE(kernels->keptBytes(), imitation::cublasWorkspaceBytes());
}

TEST_F(EmptyGpu, TensorsLieInWhatIsLent) {
  lending = true;
  at::Tensor lent = at::empty({100}, numbers.options());
  EXPECT_EQ(lent.data_ptr(), block);
  c10::Allocator *allocator = c10::GetAllocator(c10::kCUDA);
  allocator->raw_deallocate(allocator->raw_allocate(100));
  EXPECT_EQ(released, 1);
  lending = false;
  EXPECT_NE(at::empty({100}, numbers.options()).data_ptr(), block);
}

TEST_F(EmptyGpu, ASeedIsGivenByValueOutsideGraphs) {
  at::Generator generator = kernels->makeGenerator(3);
  at::PhiloxCudaState first = draw(generator), second = draw(generator);
  EXPECT_FALSE(first.captured_);
  EXPECT_EQ(first.seed_.val, 3u);
  EXPECT_EQ(first.offset_.val, 0u);
  EXPECT_GT(second.offset_.val, 0u);
}

TEST_F(EmptyGpu, ASeedIsGivenByAddressInGraphs) {
  at::Generator generator = kernels->makeGenerator(3);
  uint64_t spent = (draw(generator), draw(generator).offset_.val);
  DeviceMemory seed = device->allocate(sizeof(uint64_t));

  device->beginCapture();
  kernels->seedFromMemory(generator, seed.data());
  at::PhiloxCudaState first = draw(generator), second = draw(generator);
  kernels->seedFromMemory(generator, seed.data());
  at::PhiloxCudaState anew = draw(generator);
  kernels->seedFromMemory(generator, nullptr);
  device->endCapture();

  for (const at::PhiloxCudaState &state : {first, second, anew}) {
    EXPECT_TRUE(state.captured_);
    EXPECT_EQ(static_cast<void *>(state.seed_.ptr), seed.data());
    int64_t offset = 1;
    device->copy(0, &offset, state.offset_.ptr, sizeof(offset));
    EXPECT_EQ(offset, 0);
  }
  // The same numbers as outside, the first one after the seed anew.
  EXPECT_EQ(first.offset_intragraph_, 0u);
  EXPECT_EQ(second.offset_intragraph_, spent);
  EXPECT_EQ(anew.offset_intragraph_, 0u);

  generator.set_current_seed(4);
  EXPECT_EQ(draw(generator).seed_.val, 4u);
}

TEST_F(EmptyGpu, OperatorsThatWaitAreCounted) {
  uint64_t before = kernels->waits();
  numbers.add_(1);
  at::where(numbers.gt(0.5), numbers, 0);
  EXPECT_EQ(kernels->waits(), before);
  numbers.sum().item();
  EXPECT_EQ(kernels->waits(), before + 1);
}

TEST_F(EmptyGpu, AttentionWithDropoutDrawsFromTheGeneratorItIsGiven) {
  at::Generator generator = kernels->makeGenerator(3);
  at::Tensor x = at::empty({2, 4, 16, 8}, numbers.options().dtype(at::kHalf));
  auto [output, sums, state] =
      flashAttention(x, x, x, 0.1, true, std::nullopt, generator);
  EXPECT_EQ(output.sizes(), x.sizes());
  EXPECT_EQ(sums.sizes(), at::IntArrayRef({2, 4, 16}));
  EXPECT_EQ(state.scalar_type(), at::kLong);
  EXPECT_EQ(state.numel(), 2);
  EXPECT_TRUE(state.is_cuda());
  at::PhiloxCudaState next = draw(generator);
  EXPECT_EQ(next.seed_.val, 3u);
  EXPECT_GT(next.offset_.val, 0u);
  imitation::onLaunch(nullptr);

  auto [query, key, value] = flashAttentionBackward(
      x, x, x, x, output, sums, state, 0.1, true, std::nullopt);
  for (const at::Tensor &gradient : {query, key, value})
    EXPECT_EQ(gradient.sizes(), x.sizes());
}

TEST_F(EmptyGpu, AttentionWithDropoutDrawsFromItInGraphs) {
  at::Generator generator = kernels->makeGenerator(3);
  at::Tensor x = at::empty({2, 4, 16, 8}, numbers.options().dtype(at::kHalf));
  DeviceMemory seed = device->allocate(sizeof(uint64_t));
  device->beginCapture();
  kernels->seedFromMemory(generator, seed.data());
  flashAttention(x, x, x, 0.1, true, std::nullopt, generator);
  at::PhiloxCudaState next = draw(generator);
  kernels->seedFromMemory(generator, nullptr);
  device->endCapture();
  EXPECT_TRUE(next.captured_);
  EXPECT_EQ(static_cast<void *>(next.seed_.ptr), seed.data());
  EXPECT_GT(next.offset_intragraph_, 0u);
}

TEST_F(EmptyGpu, NormsOfGradientsDoNotWait) {
  uint64_t before = kernels->waits();
  for (double p : {1.0, 2.0, 3.0, double(INFINITY)})
    EXPECT_EQ(powerSumOfNorms({numbers, numbers}, p).scalar_type(),
              at::kDouble);
  EXPECT_EQ(kernels->waits(), before);
}

TEST_F(EmptyGpu, FusedOptimizersReadTheStepsNumbersInMemory) {
  at::Tensor rate = at::empty({}, numbers.options()), step = rate.clone();
  std::vector<at::Tensor> lists[4];
  for (auto &list : lists)
    list = {at::empty({1000}, numbers.options().dtype(at::kBFloat16))};
  uint64_t before = kernels->waits();
  at::_fused_adamw_(lists[0], lists[1], lists[2], lists[3], {}, {step}, rate,
                    0.9, 0.999, 0.01, 1e-8, /*amsgrad=*/false,
                    /*maximize=*/false);
  at::_fused_sgd_(lists[0], lists[1], lists[2], 0.01, 0.9, rate,
                  /*dampening=*/0, /*nesterov=*/true, /*maximize=*/false,
                  /*is_first_step=*/false);
  at::_fused_sgd_(lists[0], lists[1], {}, 0, 0, rate, 0, false, false, false);
  EXPECT_EQ(kernels->waits(), before);
}
