// A plan for tests of streams: layers whose gathers all come first and whose
// updates all come last.
#ifndef FSDP_TEST_UNIT_EXECUTOR_LAYERS_H
#define FSDP_TEST_UNIT_EXECUTOR_LAYERS_H

#include "PlanBuilder.h"
#include "TensorFunctions.h"
#include "executor/Executor.h"
#include "plan/CommandValues.h"

#include <algorithm>
#include <functional>
#include <thread>

namespace fsdp::test {

constexpr int ranks = 3, layers = 3, steps = 4;
/// Elements of a rank's part: a page, so that a window can show it.
constexpr int64_t part = 1024, whole = ranks * part;

inline at::Tensor numbers(at::IntArrayRef shape, int salt) {
  int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 0.7 + salt).reshape(shape);
}

/// Shows a gathered value, the newest one, in the window instead.
inline void map(plan::PlanT &plan, int gathered) {
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
inline std::unique_ptr<PlanBuilder> prefetching(bool mapped = false) {
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
                 gathered[i], part, plan::ProgramRegion::Forward);
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
inline void spread(plan::PlanT &plan) {
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

using OnBackend = std::function<void(Backend &)>;

/// Every rank's outputs of all steps, then its weights. Each rank is a thread
/// that calls `withBackend`, which calls what it is given with the rank's.
/// Outputs are read so many runs late.
inline std::vector<at::Tensor>
trainLayers(const plan::PlanT &plan,
            const std::function<void(int rank, const OnBackend &)> &withBackend,
            const ExecutorOptions &options = {}, unsigned late = 0) {
  std::vector<at::Tensor> results(ranks);
  auto train = [&](int r, Backend &backend) {
    unsigned behind = late;
    Executor executor(plan, backend, options);
    for (int i = 0; i < layers; ++i)
      executor.state(i).copy_(numbers({part}, 10 * i + r));
    std::vector<at::Tensor> all;
    auto read = [&](unsigned runsAgo) {
      for (double sum : executor.outputs(runsAgo))
        all.push_back(at::full({1}, sum, at::kDouble));
    };
    for (int step = 1; step <= steps; ++step) {
      at::Tensor x = numbers({whole}, 20 * step + r);
      executor.setInput(0, 0, x.const_data_ptr());
      executor.run(0, step);
      if (step > static_cast<int>(late))
        read(late);
    }
    while (behind > 0)
      read(--behind);
    for (int i = 0; i < layers; ++i)
      all.push_back(executor.state(i).to(at::kDouble));
    results[r] = at::cat(all);
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      withBackend(r, [&](Backend &backend) { train(r, backend); });
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_EXECUTOR_LAYERS_H
