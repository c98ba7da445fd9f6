// Tests that programs on a device whose memory is not the host's give the
// host's bits: on imitated GPUs, with PyTorch's CPU kernels in place of theirs.
#include "executor/DeviceBackend.h"
#include "executor/Executor.h"
#include "executor/HostBackend.h"

#include "Error.h"
#include "Layers.h"
#include "Regression.h"
#include "ThreadRanks.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "gpu/imitation/ImitatedCuda.h"
#include "gpu/imitation/ImitatedDevice.h"
#include "gpu/imitation/ImitatedKernels.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

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
        auto entered = backend.enter();
        body(backend);
      },
      options, late);
}

void expectEqual(const std::vector<at::Tensor> &expected,
                 const std::vector<at::Tensor> &actual) {
  for (int r = 0; r < ranks; ++r)
    EXPECT_TRUE(at::equal(expected[r], actual[r])) << "rank " << r;
}

/// The losses and the weights of a run that may replay graphs. Notes are
/// appended to `notes`.
at::Tensor train(const plan::PlanT &plan, Backend &backend, bool graph,
                 bool sequential = false, std::string *notes = nullptr) {
  ExecutorOptions options;
  options.graph = graph;
  options.sequentialRandom = sequential;
  options.note = [&](const std::string &note) {
    if (notes)
      *notes += note + "\n";
  };
  Executor executor(plan, backend, options);
  executor.state(0).copy_(numbers({3, 5}, 1));
  std::vector<at::Tensor> all;
  for (int step = 1; step <= 6; ++step) {
    executor.setInput(0, 0, numbers({4, 5}, 10 * step).const_data_ptr());
    executor.setInput(0, 1, numbers({4, 3}, 20 * step).const_data_ptr());
    if (plan.programs[0]->inputs.size() > 2) {
      float skip = step % 3 == 0;
      executor.setInput(0, 2, &skip);
    }
    executor.run(0, step);
    all.push_back(at::tensor(executor.outputs(), at::kDouble));
  }
  all.push_back(executor.state(0).flatten().to(at::kDouble));
  EXPECT_EQ(executor.counters().programRuns.at("step"), 6u);
  return at::cat(all);
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
    auto entered = backend.enter();
    Executor executor(builder->finish(), backend, {});
    FAIL() << "it fits";
  } catch (const Error &error) {
    std::string text = error.what();
    uint64_t bytes = builder->plan.arenas[plan::deviceArena]->bytes;
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("are free"), std::string::npos) << text;
    EXPECT_EQ(identifierOf(error.kind), "FSDP-E1002");
    EXPECT_NE(text.find("offload=all"), std::string::npos) << text;
  }
}

/// What a plan's run gives without a graph and with one, which must be the
/// same.
at::Tensor trainBothWays(const plan::PlanT &plan) {
  at::Tensor results[2];
  for (bool graph : {false, true}) {
    imitation::UseHost use{{}};
    DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
    auto entered = backend.enter();
    results[graph] = train(plan, backend, graph);
    // Two runs learn what operators allocate.
    EXPECT_EQ(imitation::graphLaunches(), graph ? 4u : 0u);
  }
  EXPECT_TRUE(at::equal(results[0], results[1])) << results[0] << results[1];
  return results[1];
}

TEST(DeviceExecutor, AGraphHasTheBitsOfTheStreams) {
  at::Tensor results = trainBothWays(regression()->plan);
  EXPECT_NE(results[1].item<double>(), results[9].item<double>())
      << "steps draw the same numbers";
}

TEST(DeviceExecutor, AFusedRuleSkipsWhatTheDeviceSays) {
  auto builder = skippingRegression();
  at::Tensor skipping = trainBothWays(builder->plan);
  // The host reads it, and calls no kernel.
  ThreadRanks group(1);
  auto communicator = group.connect(0);
  HostBackend host(*communicator);
  EXPECT_TRUE(at::equal(train(builder->plan, host, /*graph=*/false), skipping));
}

TEST(DeviceExecutor, SaysOnceWhyAProgramIsNoGraph) {
  imitation::UseHost use{{}};
  DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
  auto entered = backend.enter();
  auto builder = regression();
  std::string notes;
  train(builder->plan, backend, /*graph=*/true, /*sequential=*/true, &notes);
  EXPECT_EQ(notes, "program 'step' runs without a CUDA graph: --rng sequential "
                   "seeds nothing anew\n");
  EXPECT_EQ(imitation::graphLaunches(), 0u);
}

TEST(DeviceExecutor, AGraphKeepsTheScratchOfItsRuns) {
  auto builder = linearRegression(1, 3, 5, 4);
  PlanBuilder &b = *builder;
  // The evaluation, which comes after the step's graph, needs more.
  int half = b.newValue("half", {5000}), sorted = b.newValue("sorted", {5000});
  b.aten("aten::full", {integers({5000}), number(0.5)}, {half});
  b.aten("aten::sort", {value(half)}, {sorted, -1});
  holdRate(b.finish());
  at::Tensor results[2];
  for (bool graph : {false, true}) {
    imitation::UseHost use{{}};
    DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
    auto entered = backend.enter();
    ExecutorOptions options;
    options.graph = graph;
    Executor executor(b.plan, backend, options);
    executor.state(0).copy_(numbers({3, 5}, 1));
    int eval = plan::findProgram(b.plan, "eval");
    for (int step = 1; step <= 6; ++step) {
      bool evaluates = step == 4;
      for (int program : evaluates ? std::vector{eval, 0} : std::vector{0}) {
        executor.setInput(program, 0, numbers({4, 5}, step).const_data_ptr());
        executor.setInput(program, 1, numbers({4, 3}, step).const_data_ptr());
        executor.run(program, step);
      }
    }
    executor.outputs();
    results[graph] = executor.state(0).clone();
    EXPECT_EQ(imitation::graphLaunches(), graph ? 4u : 0u);
  }
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

TEST(DeviceExecutor, ACallThatReadsOnTheHostIsNoPartOfAGraph) {
  imitation::UseHost use{{}};
  DeviceBackend backend = openBackend(0, 0, std::make_shared<LocalRanks>(1));
  auto entered = backend.enter();
  auto builder = regression();
  std::swap(builder->plan.programs[0], builder->plan.programs[1]);
  int bins = builder->newValue("bins", {4});
  builder->aten("aten::histc", {value(0), integer(4)}, {bins});
  std::swap(builder->plan.programs[0], builder->plan.programs[1]);
  std::string notes;
  train(builder->finish(), backend, /*graph=*/true, false, &notes);
  EXPECT_NE(
      notes.find("aten::histc in model reads the smallest and the largest "
                 "element on the host"),
      std::string::npos)
      << notes;
}
