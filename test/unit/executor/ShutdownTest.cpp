// Tests that a rank whose kernel fails while its transfers are under way ends
// with its own error, and the others with one that names it: over every
// transport, inline and with threads for streams, ranks as threads and as
// processes, and with the others late, so that memory which were gone too early
// would be written by a transfer.
#include "executor/HostBackend.h"

#include "Error.h"
#include "Layers.h"
#include "TensorFunctions.h"
#include "comm/ConnectRanks.h"
#include "comm/RankProcesses.h"
#include "comm/RankThreads.h"

#include <ATen/Parallel.h>
#include <cmath>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/library.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr int failing = 1;

struct Way {
  bool gloo, throttled;
  HostStreamKind streams;
  bool threads; // the ranks

  std::string name() const {
    return std::string(throttled ? "Throttled" : "") +
           (gloo ? "Gloo" : "SharedMemory") +
           (streams == HostStreamKind::Inline ? "Inline" : "Streams") +
           (threads ? "Threads" : "Processes");
  }
  std::unique_ptr<Communicator> connect(c10d::Store &store, int rank) const {
    CommOptions options;
    options.transport =
        gloo ? HostTransport::Gloo : HostTransport::SharedMemory;
    options.patience = std::chrono::seconds(30);
    if (throttled)
      options.throttle = cost::Link{1e9, 1e-6};
    return connectRanks(store, rank, ranks, options, {"", /*loopback=*/true})
        .communicator;
  }
};

std::vector<Way> everyWay() {
  std::vector<Way> all;
  for (bool gloo : {false, true})
    for (HostStreamKind streams :
         {HostStreamKind::Inline, HostStreamKind::Threads})
      for (bool threads : {false, true})
        all.push_back({gloo, /*throttled=*/false, streams, threads});
  for (bool gloo : {false, true})
    all.push_back(
        {gloo, /*throttled=*/true, HostStreamKind::Inline, /*threads=*/true});
  return all;
}

/// Layers whose gathers are under way when an operator looks at the input.
std::unique_ptr<PlanBuilder> gatherThenLook() {
  auto builder = prefetching();
  int looked = builder->newValue("looked", {whole});
  builder->aten("fsdp_test::refuse_nan", {value(0)}, {looked});
  auto &commands = builder->plan.programs[0]->commands;
  std::rotate(commands.begin() + layers, commands.end() - 1, commands.end());
  spread(builder->finish());
  return builder;
}

/// A step that succeeds, and one in which one rank fails at once while the
/// others come so late that it has waited for its transfers in vain.
void failInStepTwo(const plan::PlanT &plan, const Way &way,
                   Communicator &communicator) {
  // Gloo closes its connections for a second before this rank goes on.
  std::chrono::milliseconds late(way.gloo ? 1300 : 100);
  HostBackend backend(communicator, way.streams);
  Executor executor(plan, backend, {});
  at::Tensor x = numbers({whole}, communicator.rank());
  auto run = [&](int step) {
    executor.setInput(0, 0, x.const_data_ptr());
    executor.run(0, step);
  };
  run(1);
  if (communicator.rank() == failing)
    x[0] = std::nan("");
  else
    std::this_thread::sleep_for(late);
  run(2);
}

bool isExpected(int rank, const std::string &error) {
  const char *part = rank == failing ? "the input is NaN" : "rank 1 failed: ";
  return error.find(part) != std::string::npos;
}

class Shutdown : public testing::TestWithParam<Way> {
protected:
  /// Whether each rank's error is what it should be.
  bool onThreads(const plan::PlanT &plan) {
    auto store = c10::make_intrusive<c10d::HashStore>();
    auto errors = onRanks(
        ranks, [&](int rank) { return GetParam().connect(*store, rank); },
        [&](Communicator &c) { failInStepTwo(plan, GetParam(), c); });
    bool good = true;
    for (int rank = 0; rank < ranks; ++rank)
      if (!isExpected(rank, errors[rank])) {
        std::fprintf(stderr, "rank %d: '%s'\n", rank, errors[rank].c_str());
        good = false;
      }
    return good;
  }
};

} // namespace

TEST_P(Shutdown, ARankThatFailsAmidTransfers) {
  torch::Library library(torch::Library::FRAGMENT, "fsdp_test", std::nullopt,
                         __FILE__, __LINE__);
  library.def("refuse_nan(Tensor self) -> Tensor", [](const at::Tensor &self) {
    if (std::isnan(self[0].item<float>()))
      throw Error(E::Unexpected, "the input is NaN");
    return self.clone();
  });
  auto builder = gatherThenLook();
  const plan::PlanT &plan = builder->plan;
  // In a process of their own, since what this is about ends the whole one.
  if (GetParam().threads) {
    EXPECT_EQ(statusOf(inProcess([&] {
                // PyTorch makes its pool anew after a fork, where one thread
                // asks for it: several at once would race.
                at::set_num_threads(1);
                return onThreads(plan);
              })),
              0);
    return;
  }
  RankProcesses processes(
      ranks,
      [&](Communicator &c) {
        try {
          failInStepTwo(plan, GetParam(), c);
        } catch (const std::exception &error) {
          c.abort(error.what());
          if (isExpected(c.rank(), error.what()))
            return true;
          std::fprintf(stderr, "rank %d: '%s'\n", c.rank(), error.what());
        }
        return false;
      },
      [&](c10d::Store &store, int rank, int) {
        return GetParam().connect(store, rank);
      });
  EXPECT_EQ(processes.statuses(), std::vector<int>(ranks, 0));
}

INSTANTIATE_TEST_SUITE_P(All, Shutdown, testing::ValuesIn(everyWay()),
                         [](const testing::TestParamInfo<Way> &info) {
                           return info.param.name();
                         });
