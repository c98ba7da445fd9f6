// Tests that programs on a device whose memory is not the host's give the
// host's bits: on imitated GPUs, with PyTorch's CPU kernels in place of theirs.
#include "executor/DeviceBackend.h"
#include "executor/Executor.h"
#include "executor/HostBackend.h"

#include "Error.h"
#include "Layers.h"
#include "ThreadRanks.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "imitation/ImitatedCuda.h"
#include "imitation/ImitatedDevice.h"
#include "imitation/ImitatedKernels.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// The plan's rule takes its learning rate from memory, as on GPUs.
void holdRate(plan::PlanT &plan) {
  plan::RuleT &rule = *plan.rules[0];
  plan::AtenT &add = *rule.calls[0];
  auto call = [&](const char *name, const char *overload, Arguments arguments,
                  int result) {
    auto made = std::make_unique<plan::AtenT>();
    made->name = name;
    made->overload = overload;
    for (plan::ArgumentT &argument : arguments)
      made->arguments.push_back(
          std::make_unique<plan::ArgumentT>(std::move(argument)));
    made->results = {result};
    return made;
  };
  plan::ArgumentT dtype;
  dtype.kind = plan::ArgumentKind::DType;
  dtype.i = static_cast<int64_t>(plan::DType::Float32);
  auto held = call("aten::scalar_tensor", "", {scalar(1), dtype}, 3);
  auto product = call("aten::mul", "Tensor", {value(1), value(3)}, 4);
  add = std::move(*call("aten::add", "Tensor", {value(0), value(4)}, 2));
  rule.dtypes.resize(5, plan::DType::Float32);
  rule.calls.insert(rule.calls.begin(), std::move(product));
  rule.calls.insert(rule.calls.begin(), std::move(held));
}

std::vector<at::Tensor> trainOnHost(const plan::PlanT &plan) {
  ThreadRanks group(ranks);
  return trainLayers(plan, [&](int rank, const OnBackend &body) {
    auto communicator = group.connect(rank);
    HostBackend backend(*communicator);
    body(backend);
  });
}

/// A rank on an imitated GPU.
DeviceBackend openBackend(int rank, int gpu,
                          const std::shared_ptr<LocalRanks> &group) {
  auto device = imitation::openDevice(gpu, std::size(plan::streamNames));
  auto kernels = imitation::openKernels(*device);
  auto between = createLocalDeviceCommunicator(group, rank, *device, *kernels);
  return {rank, std::move(device), std::move(kernels), std::move(between)};
}

std::vector<at::Tensor> trainOnGpus(const plan::PlanT &plan, int gpus,
                                    unsigned late = 0,
                                    const ExecutorOptions &options = {}) {
  imitation::Host host;
  host.gpus = gpus;
  imitation::UseHost use(host);
  auto group = std::make_shared<LocalRanks>(ranks);
  return trainLayers(
      plan,
      [&](int rank, const OnBackend &body) {
        DeviceBackend backend = openBackend(rank, rank % gpus, group);
        body(backend);
      },
      options, late);
}

void expectEqual(const std::vector<at::Tensor> &expected,
                 const std::vector<at::Tensor> &actual) {
  for (int r = 0; r < ranks; ++r)
    EXPECT_TRUE(at::equal(expected[r], actual[r])) << "rank " << r;
}

/// Copies, twice, an input to an output; which a graph of imitated GPUs can, as
/// it has no kernels.
std::unique_ptr<PlanBuilder> copying() {
  auto builder = std::make_unique<PlanBuilder>(1);
  PlanBuilder &b = *builder;
  b.program("step");
  int x = b.newValue("x", {}), y = b.newValue("y", {}), z = b.newValue("z", {});
  b.input("x", x, true);
  b.copy(x, y, sizeof(float));
  b.copy(y, z, sizeof(float));
  b.output("z", z);
  return builder;
}

/// What a run of `steps` steps says; its outputs must be its inputs.
std::string runWithGraph(const plan::PlanT &plan, Backend &backend, int steps,
                         bool sequential = false) {
  std::string notes;
  ExecutorOptions options;
  options.graph = true;
  options.sequentialRandom = sequential;
  options.note = [&](const std::string &note) { notes += note + "\n"; };
  Executor executor(plan, backend, options);
  for (int step = 1; step <= steps; ++step) {
    float x = step;
    executor.setInput(0, 0, &x);
    executor.run(0, step);
    EXPECT_EQ(executor.outputs().at(0), x) << "step " << step;
  }
  EXPECT_EQ(executor.counters().programRuns.at("step"), uint64_t(steps));
  return notes;
}

/// Whether the plan's gathers go to the window, and the number of GPUs.
class DeviceExecutor : public testing::TestWithParam<std::tuple<bool, int>> {};

} // namespace

TEST_P(DeviceExecutor, HasTheHostsBits) {
  auto [mapped, gpus] = GetParam();
  auto inLine = prefetching(), beside = prefetching(mapped);
  holdRate(inLine->finish());
  holdRate(beside->finish());
  spread(beside->plan);
  expectEqual(trainOnHost(inLine->plan), trainOnGpus(beside->plan, gpus));
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceExecutor,
                         testing::Combine(testing::Bool(),
                                          testing::Values(1, 3)));

TEST(DeviceExecutor, OutputsMayBeReadARunLate) {
  auto builder = prefetching();
  holdRate(builder->finish());
  spread(builder->plan);
  expectEqual(trainOnGpus(builder->plan, 1),
              trainOnGpus(builder->plan, 1, /*late=*/1));
}

TEST(DeviceExecutor, APlanThatDoesNotFitIsRefusedWithTheBytes) {
  imitation::Host host;
  host.bytes = 4096;
  imitation::UseHost use(host);
  auto builder = linearRegression(1, 300, 50, 4);
  try {
    DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
    Executor executor(builder->finish(), backend, {});
    FAIL() << "it fits";
  } catch (const Error &error) {
    std::string text = error.what();
    uint64_t bytes = builder->plan.arenas[plan::deviceArena]->bytes;
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("are free"), std::string::npos) << text;
    EXPECT_NE(text.find("offload=all"), std::string::npos) << text;
  }
}

TEST(DeviceExecutor, AGraphIsReplayedOnNewInputs) {
  imitation::UseHost use{{}};
  DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
  auto builder = copying();
  // Copies can be asked for by a run alone: the third is the first replay.
  EXPECT_EQ(runWithGraph(builder->finish(), backend, 5), "");
  EXPECT_EQ(imitation::graphLaunches(), 3u);
}

TEST(DeviceExecutor, SaysOnceWhyAProgramIsNoGraph) {
  imitation::UseHost use{{}};
  DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
  auto builder = copying();
  EXPECT_EQ(runWithGraph(builder->finish(), backend, 5, /*sequential=*/true),
            "program 'step' runs without a CUDA graph: --rng sequential seeds "
            "nothing anew\n");
  EXPECT_EQ(imitation::graphLaunches(), 0u);
}
