// What a session does with the caller's batches.
#include "session/SessionCalls.h"

#include "executor/Scalars.h"
#include "plan/ProgramOutputs.h"
#include "train/FirstProblem.h"
#include "train/StepLog.h"

#include <algorithm>

namespace fsdp {

void Session::requireProgram(const char *name) const {
  if (plan::findProgram(plan(), name) < 0)
    throw Refusal(E::PlanContents, std::string("the plan has no program '") +
                                       name +
                                       "'; export the step with eval_data");
}

std::vector<double> Session::learningRates() const {
  return givenRates.empty() ? fsdp::learningRates(plan(), done + 1)
                            : givenRates;
}

void Session::setLearningRates(std::vector<double> rates) {
  if (!plan().schedule.empty())
    throw Refusal(
        E::RunState,
        "the plan has a schedule of learning rates for " +
            std::to_string(scheduledSteps(plan())) +
            " steps; export the step without lr_schedule to set them");
  size_t groups = fsdp::learningRates(plan(), 1).size();
  if (rates.size() != groups)
    throw Refusal(E::RunState,
                  std::to_string(rates.size()) +
                      " learning rates are given, and the optimizer has " +
                      std::to_string(groups) + " groups of parameters");
  guarded([&] { state->executor.setLearningRates(rates); });
  givenRates = std::move(rates);
}

/// Says what is wrong with the last step, whose batches are not dropped yet.
void Session::lookAtLoss(const BatchOrigin &origin) {
  lastStep->note = nonFinite->look(*lastStep, std::nullopt);
  std::string doubt;
  if (!lastStep->note.empty() || nonFinite->wish())
    if (auto found = stepInputs.findNaN())
      doubt =
          "batch['" + found->input + "'] has NaN" +
          (found->row < 0 ? "" : " in sample " + std::to_string(found->row)) +
          origin(found->batch, found->row);
  if (!lastStep->note.empty() && !doubt.empty())
    lastStep->note += "; " + doubt;
  if (!decisions)
    return;
  StepDecision wish;
  wish.nonFinite = nonFinite->wish();
  auto stop = decisions->after(done, wish).nonFinite;
  if (!stop)
    return;
  doubt = firstProblem(ranks(), doubt);
  throw NonFiniteLoss(E::NonFinite, describeStep(*stop, done) +
                                        (nonFinite->skipsUpdates()
                                             ? ", and its update was left "
                                               "out"
                                             : ", and its update is "
                                               "applied") +
                                        (doubt.empty() ? "" : "; " + doubt));
}

const SessionStep &Session::step(const std::vector<Batch> &batches,
                                 const BatchOrigin &origin) {
  return guarded([&]() -> const SessionStep & {
    auto begin = std::chrono::steady_clock::now();
    try {
      stepInputs.take(batches);
    } catch (const BatchError &error) {
      throw BatchError(error.what() + origin(error.batch, -1));
    }
    runner->launch(done + 1);
    runner->finishAll();
    ++done;
    samples += samplesOf(*plan().programs[lastStep->program]);
    lastStep->stepMs = std::chrono::duration<double, std::milli>(
                           std::chrono::steady_clock::now() - begin)
                           .count();
    lookAtLoss(origin);
    stepInputs.drop();
    for (const std::string &note : std::exchange(news, {}))
      lastStep->note += (lastStep->note.empty() ? "" : "; ") + note;
    return *lastStep;
  });
}

Evaluated Session::evaluate(const std::vector<Batch> &batches) {
  return guarded([&] {
    requireProgram(plan::evalProgramName);
    evalInputs->take(batches);
    int program = evalInputs->agree(ranks());
    state->repeated.set(program, state->executor);
    evalInputs->set(0, program, state->executor);
    evalInputs->drop();
    state->executor.run(program, std::max<uint64_t>(done, 1));
    Evaluated result;
    const plan::ProgramT &eval = *plan().programs[program];
    auto numbers = plan::outputsOf(eval, true);
    auto tensors = plan::outputsOf(eval, false);
    std::vector<double> values = state->executor.outputs();
    for (size_t i = 0; i < numbers.size(); ++i)
      result.numbers.emplace_back(numbers[i]->name, values[i]);
    if (tensors.empty())
      return result;
    std::vector<at::Tensor> copies = state->executor.tensorOutputs(program);
    for (size_t i = 0; i < tensors.size(); ++i)
      result.tensors.emplace_back(tensors[i]->name, copies[i]);
    return result;
  });
}

void Session::setSteps(uint64_t steps) {
  guarded([&] { done = steps; });
}

std::vector<double> Session::mean(std::vector<double> values) {
  return guarded([&] {
    std::vector<double> sums = sumOverRanks(ranks(), std::move(values));
    for (double &sum : sums)
      sum /= size();
    return sums;
  });
}

void Session::barrier() {
  guarded([&] { ranks().barrier(); });
}

/// Samples of a step whose last micro-batch runs a program, all ranks together.
uint64_t Session::samplesOf(const plan::ProgramT &program) const {
  uint64_t samples = 0;
  for (const auto &input : program.inputs)
    if (const auto &shape = program.values[input->value]->shape;
        input->from_data && !shape.empty())
      samples = shape[0] * size() * plan().micro_batches;
  return samples;
}

} // namespace fsdp
