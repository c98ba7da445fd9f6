// Tests that the host keeps out of a GPU's memory while programs run on it, and
// neither waits nor allocates: with PyTorch's own CUDA half, and a GPU whose
// kernels do nothing.
#include "executor/DeviceBackend.h"
#include "executor/Executor.h"
#include "executor/PlacingAllocator.h"

#include "Regression.h"
#include "TensorFunctions.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "gpu/imitation/EmptyGpu.h"
#include "plan/AlignUp.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

DeviceBackend openBackend() {
  auto device = openCudaDevice(0, std::size(plan::streamNames));
  auto kernels = openCudaKernels(*device, gpuMemoryHooks);
  setDefaultGpuAllocator(kernels->allocator());
  auto alone = createLocalDeviceCommunicator(std::make_shared<LocalRanks>(1), 0,
                                             *device, *kernels);
  return {0, std::move(device), std::move(kernels), std::move(alone)};
}

/// Gives the step its inputs and runs it.
void runStep(Executor &executor, const plan::PlanT &plan, uint64_t step) {
  const plan::ProgramT &program = *plan.programs[0];
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    std::vector<float> values(c10::multiply_integers(
        program.values[program.inputs[i]->value]->shape));
    executor.setInput(0, i, values.data());
  }
  executor.run(0, step);
}

/// Runs a plan's step; from the second run on the host neither waits nor
/// allocates, and all results land at once.
void expectSteadyRuns(const plan::PlanT &plan, bool graph) {
  DeviceBackend backend = openBackend();
  auto entered = backend.enter();
  std::string notes;
  ExecutorOptions options;
  options.graph = graph;
  options.note = [&](const std::string &note) { notes += note + "\n"; };
  Executor executor(plan, backend, options);
  size_t graphs = imitation::graphLaunches();
  runStep(executor, plan, 1);
  uint64_t waits = backend.kernels().waits();
  uint64_t kept = backend.kernels().keptBytes();
  for (int step = 2; step <= 5; ++step) {
    runStep(executor, plan, step);
    EXPECT_EQ(executor.outputs().size(), plan.programs[0]->outputs.size());
  }
  EXPECT_EQ(backend.kernels().waits(), waits);
  EXPECT_EQ(backend.kernels().keptBytes(), kept);
  EXPECT_EQ(executor.counters().bytesAllocatedInSteps, 0u);
  EXPECT_TRUE(executor.counters().outputsCopied.empty());
  EXPECT_EQ(executor.counters().programRuns.at("step"), 5u);
  EXPECT_EQ(imitation::graphLaunches() - graphs, graph ? 3u : 0u);
  EXPECT_EQ(notes, "");
}

void moveToHost(plan::PlanT &plan, plan::Place &place) {
  uint64_t &end = plan.arenas[plan::hostArena]->bytes;
  place = plan::Place(plan::hostArena, end, place.bytes());
  end += alignUp(place.bytes());
}

/// Elements of the weight of `offloaded`, and what its step moves.
constexpr int64_t offloadedElements = 100;
constexpr uint64_t offloadedBytes = (2 * offloadedElements + 1) * sizeof(float);

/// A step whose one weight lies in the host's memory, where it is updated with
/// its gradient times a number.
std::unique_ptr<PlanBuilder> offloaded(bool pinned) {
  auto builder = std::make_unique<PlanBuilder>(1);
  PlanBuilder &b = *builder;
  b.plan.arenas[plan::hostArena]->pinned = pinned;
  const Shape shape = {offloadedElements};
  unsigned weight = b.state("w", plan::Role::Parameter, shape);
  moveToHost(b.plan, *b.plan.states[weight]->place);
  unsigned rule = addSgdRule(b);
  b.program("step");
  auto hostValue = [&](const char *name, const Shape &shape) {
    int v = b.newValue(name, shape);
    moveToHost(b.plan, *b.plan.programs[0]->values[v]->place);
    return v;
  };
  int fetched = b.newValue("fetched", shape);
  int gradient = b.newValue("gradient", shape), scale = b.newValue("scale", {});
  int sent = hostValue("sent", shape), sentScale = hostValue("sent_scale", {});
  b.copy(b.stateValue(weight), fetched, offloadedElements * sizeof(float));
  b.aten("aten::mul.Scalar", {value(fetched), number(2)}, {gradient});
  b.aten("aten::sum", {value(gradient)}, {scale});
  b.copy(gradient, sent, offloadedElements * sizeof(float));
  b.copy(scale, sentScale, sizeof(float));
  b.update(rule, weight, sent);
  b.plan.programs[0]->commands.back()->operation.AsUpdate()->scale = sentScale;
  b.output("scale", scale);
  holdRate(b.finish());
  return builder;
}

/// Whether runs are replayed as graphs.
class EmptyGpuSteps : public testing::TestWithParam<bool> {};

} // namespace

TEST_P(EmptyGpuSteps, ARuleOfSeveralKernelsNeitherWaitsNorAllocates) {
  expectSteadyRuns(regression()->plan, /*graph=*/GetParam());
}

TEST_P(EmptyGpuSteps, ARuleOfOneKernelNeitherWaitsNorAllocates) {
  expectSteadyRuns(skippingRegression()->plan, /*graph=*/GetParam());
}

INSTANTIATE_TEST_SUITE_P(Graph, EmptyGpuSteps, testing::Bool());

TEST(EmptyGpuExecutor, StatesAreCopiedThereAndBack) {
  DeviceBackend backend = openBackend();
  auto entered = backend.enter();
  auto builder = regression();
  Executor executor(builder->plan, backend, {});
  at::Tensor weight = at::rand({3, 5});
  executor.state(0).copy_(weight);
  EXPECT_TRUE(executor.state(0).is_cuda());
  EXPECT_TRUE(at::equal(executor.state(0).cpu(), weight));
  executor.state(0).fill_(0);
}

TEST(EmptyGpuExecutor, InputsComeFromTheHostOrFromTheDevice) {
  DeviceBackend backend = openBackend();
  auto entered = backend.enter();
  PlanBuilder b(1);
  b.program("step");
  int input = b.newValue("x", {3, 5});
  b.input("x", input, /*fromData=*/true);
  b.output("x", input);
  Executor executor(b.finish(), backend, {});
  for (bool onDevice : {false, true}) {
    at::Tensor expected = at::rand({3, 5});
    at::Tensor given = onDevice ? expected.cuda() : expected;
    executor.setInput(0, 0, given.const_data_ptr(), onDevice);
    executor.run(0, 1);
    EXPECT_TRUE(at::equal(executor.tensorOutputs(0).at(0), expected));
  }
}

TEST(EmptyGpuExecutor, TheNormOfGradientsIsReadOnTheHost) {
  DeviceBackend backend = openBackend();
  auto entered = backend.enter();
  auto builder = regression();
  Executor executor(builder->plan, backend, {});
  executor.setGradientNorm(true);
  for (int step = 1; step <= 3; ++step)
    runStep(executor, builder->plan, step);
  EXPECT_EQ(executor.squaredGradientNorm(), 0);
  EXPECT_EQ(executor.counters().bytesAllocatedInSteps, 0u);
}

TEST(EmptyGpuExecutor, CastsThatFollowEachOtherAreOneKernel) {
  DeviceBackend backend = openBackend();
  auto entered = backend.enter();
  PlanBuilder b(1);
  plan::ArgumentT bfloat16 = float32();
  bfloat16.i = static_cast<int64_t>(plan::DType::BFloat16);
  std::vector<unsigned> weights;
  for (int i = 0; i < 20; ++i)
    weights.push_back(
        b.state("w" + std::to_string(i), plan::Role::Parameter, {i + 1, 3}));
  b.program("step");
  for (unsigned weight : weights) {
    int cast = b.newValue("cast" + std::to_string(weight), {weight + 1, 3},
                          plan::DType::BFloat16);
    b.aten("aten::_to_copy", {value(b.stateValue(weight)), bfloat16}, {cast});
  }
  Executor executor(b.finish(), backend, {});
  int kernels = 0;
  imitation::onLaunch([&](cudaStream_t, void **) { ++kernels; });
  executor.run(0, 1);
  imitation::onLaunch(nullptr);
  EXPECT_EQ(kernels, 1);
}

/// Whether the host's memory is pinned.
class EmptyGpuOffload : public testing::TestWithParam<bool> {};

TEST_P(EmptyGpuOffload, UpdatesRunOnTheHost) {
  DeviceBackend backend = openBackend();
  auto entered = backend.enter();
  auto builder = offloaded(/*pinned=*/GetParam());
  Executor executor(builder->plan, backend, {});
  EXPECT_TRUE(executor.state(0).is_cpu());
  executor.state(0).fill_(3);
  for (int step = 1; step <= 3; ++step)
    runStep(executor, builder->plan, step);
  // The kernels of the GPU do nothing: its gradients are zeros.
  EXPECT_TRUE(
      at::equal(executor.state(0), at::full({offloadedElements}, 3.0f)));
  EXPECT_EQ(executor.counters().offloadBytes, 3 * offloadedBytes);
  EXPECT_EQ(executor.counters().bytesAllocatedInSteps, 0u);
}

INSTANTIATE_TEST_SUITE_P(Pinned, EmptyGpuOffload, testing::Bool());
