// Tests that collectives beside compute give the bits of those in line with it,
// copied or mapped, however late a rank is with any of them.
#include "executor/Executor.h"
#include "executor/HostBackend.h"

#include "PlanBuilder.h"
#include "ThreadRanks.h"
#include "executor/ValueUses.h"
#include "plan/CommandValues.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr int ranks = 3, layers = 3, steps = 4;
/// Elements of a rank's part: a page, so that a window can show it.
constexpr int64_t part = 1024, whole = ranks * part;

at::Tensor numbers(at::IntArrayRef shape, int salt) {
  int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 0.7 + salt).reshape(shape);
}

/// Shows a gathered value, the newest one, in the window instead.
void map(plan::PlanT &plan, int gathered) {
  plan::Place &place = *plan.programs.back()->values[gathered]->place;
  uint64_t bytes = place.bytes();
  plan.arenas[plan::deviceArena]->bytes -= bytes;
  uint64_t &window = plan.arenas[plan::windowArena]->bytes;
  place = plan::Place(plan::windowArena, window, bytes);
  window += bytes;
}

/// Layers whose gathers all come first and whose updates all come last; each
/// layer's gradient is its weight times the input. With `mapped` ranks read
/// each other's weights in place.
std::unique_ptr<PlanBuilder> prefetching(bool mapped = false) {
  auto builder = std::make_unique<PlanBuilder>(ranks);
  PlanBuilder &b = *builder;
  unsigned rule = addSgdRule(b);
  std::vector<int> weights, gathered, gradients;
  b.program("step");
  int x = b.newValue("x", {whole});
  b.input("x", x, true);
  for (int i = 0; i < layers; ++i) {
    std::string name = std::to_string(i);
    weights.push_back(b.state("w" + name, plan::Role::Parameter, {whole},
                              /*sharded=*/true));
    b.plan.states[weights[i]]->is_flat = true;
    gathered.push_back(b.newValue("whole" + name, {whole}));
    if (mapped)
      map(b.plan, gathered[i]);
    b.collective(plan::CollectiveKind::AllGather, b.stateValue(weights[i]),
                 gathered[i], part, "forward");
    b.plan.programs[0]->commands.back()->operation.AsCollective()->mapped =
        mapped;
  }
  for (int i = 0; i < layers; ++i) {
    std::string name = std::to_string(i);
    int product = b.newValue("product" + name, {whole});
    b.aten("aten::mul.Tensor", {value(x), value(gathered[i])}, {product});
    int sum = b.newValue("sum" + name, {});
    b.aten("aten::sum", {value(product)}, {sum});
    b.output("sum" + name, sum);
    gradients.push_back(b.newValue("gradient" + name, {part}));
    b.collective(plan::CollectiveKind::ReduceScatter, product, gradients[i],
                 part);
  }
  for (int i = 0; i < layers; ++i)
    b.update(rule, weights[i], gradients[i]);
  return builder;
}

/// Takes each collective to a stream and a channel of its kind; the others wait
/// for it as late as they may.
void spread(plan::PlanT &plan) {
  plan::ProgramT &program = *plan.programs[0];
  std::vector<std::unique_ptr<plan::CommandT>> commands;
  auto mark = [&](bool record, unsigned stream, unsigned event) {
    auto command = std::make_unique<plan::CommandT>();
    command->stream = stream;
    if (record) {
      plan::RecordT operation;
      operation.event = event;
      command->operation.Set(std::move(operation));
    } else {
      plan::WaitT operation;
      operation.event = event;
      command->operation.Set(std::move(operation));
    }
    commands.push_back(std::move(command));
  };
  struct Flight {
    unsigned over;
    std::vector<int> values;
  };
  std::vector<Flight> flights;
  for (auto &command : program.commands) {
    std::vector<int> used = plan::valuesOf(*command);
    for (auto flight = flights.begin(); flight != flights.end();) {
      bool awaited = std::any_of(used.begin(), used.end(), [&](int v) {
        return std::count(flight->values.begin(), flight->values.end(), v);
      });
      // What is updated may still be read by its gather.
      if (!awaited && !command->operation.AsUpdate()) {
        ++flight;
        continue;
      }
      mark(false, plan::computeStream, flight->over);
      flight = flights.erase(flight);
    }
    auto *collective = command->operation.AsCollective();
    if (!collective) {
      commands.push_back(std::move(command));
      continue;
    }
    bool gathers = collective->kind == plan::CollectiveKind::AllGather;
    unsigned stream = gathers ? 1 : 2;
    unsigned ready = program.events++, over = program.events++;
    collective->channel = gathers ? 0 : 1;
    command->stream = stream;
    mark(true, plan::computeStream, ready);
    mark(false, stream, ready);
    commands.push_back(std::move(command));
    mark(true, stream, over);
    flights.push_back({over, used});
  }
  program.commands = std::move(commands);
}

enum class Late {
  Nobody,
  BeforeGather,
  AfterForward,
  BeforeReduce,
  BeforeUpdate,
  Always
};

/// Sleeps, on each rank for another while, before some of what it hands on.
class Delayed : public Communicator {
public:
  Delayed(std::unique_ptr<Communicator> inner, Late late)
      : inner(std::move(inner)), late(late), random(this->inner->rank()) {}

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  std::string transport() const override { return inner->transport(); }
  uint64_t start(const Transfer &transfer) override {
    bool gathers = transfer.kind == plan::CollectiveKind::AllGather;
    if (!gathers && forward.exchange(false))
      pause(Late::AfterForward);
    forward = gathers;
    pause(gathers ? Late::BeforeGather : Late::BeforeReduce);
    return inner->start(transfer);
  }
  void finish(uint64_t transfer) override {
    inner->finish(transfer);
    pause(Late::BeforeUpdate);
  }
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override {
    auto memory = inner->allocate(layout);
    EXPECT_EQ(memory->mapped(), layout.windowBytes > 0);
    return memory;
  }
  void abort(const std::string &reason) override { inner->abort(reason); }

private:
  void pause(Late now) {
    if (late != now && late != Late::Always)
      return;
    std::unique_lock<std::mutex> lock(mutex);
    auto length = std::chrono::microseconds(random() % 3000);
    lock.unlock();
    std::this_thread::sleep_for(length);
  }

  std::unique_ptr<Communicator> inner;
  Late late;
  std::atomic<bool> forward = false; // the last start was a gather's
  std::mutex mutex; // of what follows: streams may have threads
  std::minstd_rand random;
};

/// Every rank's outputs of all steps, then its weights.
std::vector<at::Tensor> train(const plan::PlanT &plan, HostStreamKind kind,
                              Late late) {
  ThreadRanks group(ranks);
  std::vector<at::Tensor> results(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      Delayed communicator(group.connect(r), late);
      HostBackend backend(communicator, kind);
      Executor executor(plan, backend, {});
      for (int i = 0; i < layers; ++i)
        executor.state(i).copy_(numbers({part}, 10 * i + r));
      std::vector<at::Tensor> all;
      for (int step = 1; step <= steps; ++step) {
        at::Tensor x = numbers({whole}, 20 * step + r);
        executor.setInput(0, 0, x.const_data_ptr());
        executor.run(0, step);
        for (int i = 0; i < layers; ++i)
          all.push_back(at::full({1}, executor.outputs().at(i), at::kDouble));
      }
      for (int i = 0; i < layers; ++i)
        all.push_back(executor.state(i).to(at::kDouble));
      results[r] = at::cat(all);
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

class StreamsOfHost
    : public testing::TestWithParam<std::tuple<HostStreamKind, Late, bool>> {};

} // namespace

TEST_P(StreamsOfHost, DelaysChangeNoBit) {
  auto [kind, late, mapped] = GetParam();
  auto inLine = prefetching(), beside = prefetching(mapped);
  auto expected = train(inLine->finish(), HostStreamKind::Inline, Late::Nobody);
  plan::PlanT &plan = beside->finish();
  spread(plan);
  auto actual = train(plan, kind, late);
  for (int r = 0; r < ranks; ++r)
    EXPECT_TRUE(at::equal(expected[r], actual[r])) << "rank " << r;
}

INSTANTIATE_TEST_SUITE_P(
    Late, StreamsOfHost,
    testing::Combine(
        testing::Values(HostStreamKind::Inline, HostStreamKind::Threads),
        testing::Values(Late::Nobody, Late::BeforeGather, Late::AfterForward,
                        Late::BeforeReduce, Late::BeforeUpdate, Late::Always),
        testing::Bool()));
