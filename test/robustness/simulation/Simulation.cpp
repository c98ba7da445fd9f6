#include "Simulation.h"

#include "Interleaving.h"
#include "SimulatedRank.h"
#include "ThreadRanks.h"
#include "executor/Executor.h"
#include "state/LoadWeights.h"
#include "train/RepeatedInputs.h"
#include "train/SampledBatches.h"
#include "train/StepRunner.h"

#include <cmath>
#include <cstring>
#include <exception>
#include <thread>

namespace fsdp::test {

struct Simulation::Rank {
  Rank(const plan::PlanT &plan, const Inputs &inputs, int ranks, int rank)
      : repeated(plan) {
    if (!inputs.data.empty())
      batches.emplace(Variants(plan, "step"), inputs.data, ranks, rank,
                      /*shuffle=*/false, plan.seed);
  }

  /// Adds to `ending` what each step gives, and what is there behind the last.
  void train(const plan::PlanT &plan, Executor &executor,
             Communicator &communicator, uint64_t steps, Ending &ending) {
    StepRunner::Feed feed;
    if (batches)
      feed = [&](uint64_t step, uint64_t microBatch, int program) {
        int64_t batch = (step - 1) * plan.micro_batches + microBatch;
        batches->set(0, batch % batches->perEpoch(), program, executor);
      };
    StepRunner runner(plan, executor, repeated, nullptr, feed, /*runsAhead=*/0,
                      [&](const FinishedStep &step) {
                        ending.outputs.push_back(step.outputs);
                      });
    for (uint64_t step = 1; step <= steps; ++step)
      runner.launch(step);
    communicator.barrier();
    ending.states = copyStates(plan, executor);
  }

  static std::vector<at::Tensor> copyStates(const plan::PlanT &plan,
                                            Executor &executor) {
    std::vector<at::Tensor> states;
    for (size_t s = 0; s < plan.states.size(); ++s) {
      at::Tensor state = executor.state(s);
      states.push_back(state.defined() ? state.clone() : state);
    }
    return states;
  }

  RepeatedInputs repeated;
  std::optional<SampledBatches> batches;
  std::vector<at::Tensor> first; // values of states
  Ending ordinary;
};

/// What a seed says of a run beside its turns.
struct Simulation::Seeded {
  Seeded(const plan::PlanT &plan, uint64_t seed, uint64_t steps)
      : seed(seed), random(seed),
        execution(seed % 2 ? Execution::Inline : Execution::Model),
        maps(seed / 2 % 2) {
    if (seed % 5 != 4)
      return;
    uint64_t commands = 0;
    for (const auto &program : plan.programs)
      commands += program->commands.size();
    death = Death{static_cast<int>(random() % plan::numRanks(plan)),
                  random() % (commands * steps * plan.micro_batches)};
  }

  uint64_t seed;
  Random random;
  Execution execution;
  bool maps; // windows
  std::optional<Death> death;
};

static ExecutorOptions optionsFor(const plan::PlanT &plan) {
  ExecutorOptions options;
  options.seed = plan.seed;
  return options;
}

Simulation::Simulation(const plan::PlanT &given, const Inputs &inputs)
    : plan(given), inputs(inputs) {
  int size = static_cast<int>(plan::numRanks(plan));
  ThreadRanks group(size);
  std::vector<std::exception_ptr> errors(size);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    ranks.push_back(std::make_unique<Rank>(plan, inputs, size, r));
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      Rank &rank = *ranks[r];
      std::unique_ptr<Communicator> communicator = group.connect(r);
      try {
        HostBackend backend(*communicator);
        Executor executor(plan, backend, optionsFor(plan));
        loadWeights(plan, {inputs.weights, false, plan.seed, false},
                    *communicator, executor, rank.repeated.tensors());
        rank.first = Rank::copyStates(plan, executor);
        rank.train(plan, executor, *communicator, inputs.steps, rank.ordinary);
      } catch (const PeerFailure &failure) {
        communicator->leave(failure.what());
      } catch (const std::exception &error) {
        errors[r] = std::current_exception();
        communicator->abort(error.what());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::exception_ptr &error : errors)
    if (error)
      std::rethrow_exception(error);
}

Simulation::~Simulation() = default;

std::vector<Ending> Simulation::simulate(const plan::PlanT &changed,
                                         const Seeded &seeded) const {
  int size = static_cast<int>(ranks.size());
  RankScheduler scheduler(seeded.seed, size);
  SimulatedRanks shared(scheduler, size, seeded.maps, seeded.death);
  struct Run {
    plan::PlanT plan;
    std::unique_ptr<SimulatedCommunicator> communicator;
    std::unique_ptr<SimulatedBackend> backend;
    std::unique_ptr<Executor> executor; // until no rank sees its memory
  };
  std::vector<Run> runs(size);
  std::vector<Ending> endings(size);
  Random random = seeded.random;
  const plan::PlanT marked = withTurns(changed);
  for (int r = 0; r < size; ++r) {
    // Ranks start their transfers in one order; the model asks it of channels.
    runs[r].plan = seeded.execution == Execution::Model
                       ? interleaved(marked, random)
                       : marked;
    runs[r].communicator = std::make_unique<SimulatedCommunicator>(shared, r);
    runs[r].backend = std::make_unique<SimulatedBackend>(
        shared, *runs[r].communicator, seeded.execution);
  }
  scheduler.run([&](int r) {
    Run &run = runs[r];
    try {
      run.executor = std::make_unique<Executor>(run.plan, *run.backend,
                                                optionsFor(run.plan));
      for (size_t s = 0; s < ranks[r]->first.size(); ++s)
        if (at::Tensor state = run.executor->state(s); state.defined())
          state.copy_(ranks[r]->first[s]);
      ranks[r]->train(run.plan, *run.executor, *run.communicator, inputs.steps,
                      endings[r]);
    } catch (const PeerFailure &failure) {
      endings[r].error = failure.what();
      endings[r].blamesOthers = true;
      run.communicator->leave(failure.what());
    } catch (const std::exception &error) {
      endings[r].error = error.what();
      run.communicator->abort(error.what());
    }
  });
  return endings;
}

static bool sameBits(const std::vector<double> &a,
                     const std::vector<double> &b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

static bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined();
  at::Tensor x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

/// The first thing that differs; empty: nothing. A rank that failed has done
/// some of its steps.
static std::string compare(const plan::PlanT &plan, const Ending &ending,
                           const Ending &ordinary) {
  for (size_t step = 0; step < ending.outputs.size(); ++step)
    if (!sameBits(ending.outputs[step], ordinary.outputs[step]))
      return "the outputs of step " + std::to_string(step + 1);
  for (size_t s = 0; s < ending.states.size(); ++s)
    if (!sameBits(ending.states[s], ordinary.states[s]))
      return plan.states[s]->fqn;
  return "";
}

Finding Simulation::run(const plan::PlanT &changed, uint64_t seed) const {
  Seeded seeded(changed, seed, inputs.steps);
  std::vector<Ending> endings = simulate(changed, seeded);
  bool died = seeded.death && endings[seeded.death->rank].error == endOfRank;
  std::string reason;
  if (died)
    reason =
        "rank " + std::to_string(seeded.death->rank) + " failed: " + endOfRank;
  for (size_t r = 0; r < endings.size(); ++r) {
    std::string what = "rank " + std::to_string(r) + ": ";
    const Ending &ending = endings[r];
    bool isVictim = died && static_cast<int>(r) == seeded.death->rank;
    if (std::string where = compare(plan, ending, ranks[r]->ordinary);
        !where.empty())
      return {Verdict::Differs, what + where};
    if (isVictim)
      continue;
    bool reports = ending.blamesOthers && ending.error == reason;
    if (died ? !reports : !ending.error.empty())
      return {Verdict::Fails,
              what + (ending.error.empty() ? "says nothing" : ending.error)};
  }
  return {died ? Verdict::Reported : Verdict::Same, reason};
}

bool Simulation::isFinite() const {
  for (const auto &rank : ranks)
    for (const auto &outputs : rank->ordinary.outputs)
      for (double value : outputs)
        if (!std::isfinite(value))
          return false;
  return true;
}

} // namespace fsdp::test
