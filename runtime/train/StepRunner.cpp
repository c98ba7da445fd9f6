#include "train/StepRunner.h"

#include "plan/ProgramOutputs.h"

#include <chrono>

namespace fsdp {

using Clock = std::chrono::steady_clock;

static double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

StepRunner::StepRunner(const plan::PlanT &plan, Executor &executor,
                       const RepeatedInputs &repeated, Choose choose, Feed feed,
                       unsigned runsAhead, OnFinished onFinished)
    : plan(plan), executor(executor), repeated(repeated),
      choose(std::move(choose)), feed(std::move(feed)), runsAhead(runsAhead),
      onFinished(std::move(onFinished)),
      stepProgram(plan::findProgram(plan, plan::stepProgramName)),
      accumulateProgram(plan::findProgram(plan, plan::accumulateProgramName)) {}

void StepRunner::launch(uint64_t step) {
  auto begin = Clock::now();
  int program = choose ? choose(step) : stepProgram;
  Step &launchedStep = steps.emplace_back();
  launchedStep.number = step;
  launchedStep.program = program;
  launchedStep.dataWaitMs = milliseconds(Clock::now() - begin);
  // With turns, the sum of their losses is in front.
  size_t outputs = launchedStep.place = plan::hasTurns(plan, program);
  uint64_t last = plan.micro_batches - 1;
  launchedStep.runs = last;
  for (int turn = program; turn >= 0; turn = plan.programs[turn]->next) {
    outputs += plan.programs[turn]->outputs.size();
    ++launchedStep.runs;
  }
  launchedStep.outputs.resize(outputs);
  // The step may be over, and gone, with its last run.
  for (uint64_t m = 0; m < last; ++m)
    launchRun(step, m, accumulateProgram);
  for (int turn = program; turn >= 0; turn = plan.programs[turn]->next)
    launchRun(step, last, turn);
}

void StepRunner::launchRun(uint64_t step, uint64_t microBatch, int program) {
  auto begin = Clock::now();
  repeated.set(program, executor);
  if (feed)
    feed(step, microBatch, program);
  Step &current = steps.back();
  const Counters &counters = executor.counters();
  std::optional<Streams::Times> before = counters.communication;
  uint64_t offloaded = counters.offloadBytes;
  auto ready = Clock::now();
  current.dataWaitMs += milliseconds(ready - begin);
  executor.run(program, step, microBatch);
  current.launchMs += milliseconds(Clock::now() - ready);
  current.offloadBytes += counters.offloadBytes - offloaded;
  if (program != accumulateProgram)
    addNorms(current);
  if (before && counters.communication)
    current.exposedCommMs =
        current.exposedCommMs.value_or(0) +
        1e3 * (counters.communication->exposed - before->exposed);
  if (++launched > runsAhead)
    collect(runsAhead);
}

void StepRunner::addNorms(Step &step) const {
  step.squaredGradientNorm += executor.squaredGradientNorm();
  const std::vector<double> &norms = executor.squaredGradientNorms();
  step.squaredGradientNorms.resize(norms.size());
  for (size_t i = 0; i < norms.size(); ++i)
    step.squaredGradientNorms[i] += norms[i];
}

/// Adds the outputs of a run, the oldest whose are not collected, to its
/// step's: those of micro-batches in one place, those of turns behind each
/// other.
void StepRunner::collect(unsigned runsAgo) {
  Step &step = steps.front();
  std::vector<double> values = executor.outputs(runsAgo);
  for (size_t i = 0; i < values.size(); ++i)
    step.outputs[step.place + i] += values[i];
  if (plan::hasTurns(plan, step.program)) {
    step.outputs[0] += values[0];
    step.place += values.size();
  }
  --launched;
  if (++step.collected == step.runs)
    finish();
}

void StepRunner::finishAll() {
  while (launched)
    collect(launched - 1);
}

void StepRunner::finish() {
  Step &step = steps.front();
  // What is of the whole step, such as a norm, the last one has in addition.
  if (plan.micro_batches > 1)
    for (size_t i = 0; i < plan.programs[accumulateProgram]->outputs.size();
         ++i)
      step.outputs[i] /= plan.micro_batches;
  onFinished(step);
  steps.pop_front();
}

} // namespace fsdp
