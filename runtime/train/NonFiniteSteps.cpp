#include "train/NonFiniteSteps.h"

#include "Error.h"
#include "plan/ProgramOutputs.h"
#include "plan/StateNames.h"

#include <ATen/core/Tensor.h>
#include <algorithm>
#include <cmath>

namespace fsdp {

/// The place among what a step gives; -1: it does not.
static int findOutput(const plan::PlanT &plan, const std::string &name) {
  auto names =
      plan::namesOfStep(plan, plan::findProgram(plan, plan::stepProgramName));
  auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

/// "NaN", or which infinity.
static std::string describeLoss(double loss) {
  return std::isnan(loss) ? "NaN" : loss > 0 ? "infinite" : "minus infinity";
}

NonFiniteSteps::NonFiniteSteps(const plan::PlanT &plan,
                               const RunOptions &options, int rank,
                               std::string option)
    : plan(plan), stops(options.nonFinite == NonFinite::Stop), rank(rank),
      option(std::move(option)),
      skippedOutput(findOutput(plan, skippedOutputName)),
      isScaler(plan::findState(plan, plan::scaleStateName) >= 0) {
  if (options.nonFinite == NonFinite::Skip && !skipsUpdates())
    throw Error(E::FlagAndPlan,
                this->option + "skip needs a plan that can skip an update; "
                               "compile it with the option non-finite=skip of "
                               "fsdp-pipeline");
  if (options.nonFinite == NonFinite::Continue && skipsUpdates() && !isScaler)
    throw Error(E::FlagAndPlan,
                this->option +
                    "continue does not fit the plan, which skips such "
                    "steps; compile it without non-finite=skip");
}

void NonFiniteSteps::begin(const checkpoint::RunPosition *from,
                           Executor &executor) {
  if (int state = plan::findState(plan, plan::skippedStateName); state >= 0)
    skippedSoFar = executor.state(state).item<double>();
  if (!from)
    return;
  for (const auto &[name, value] : from->metrics)
    if (name == spoiledSinceName)
      spoiledSince = static_cast<uint64_t>(value);
}

std::string NonFiniteSteps::look(const FinishedStep &ended,
                                 const std::optional<double> &lossOfAll) {
  double own = ended.outputs.empty() ? std::nan("") : ended.outputs[0];
  bool isOwn = !std::isfinite(own);
  bool isBad = isOwn || (lossOfAll && !std::isfinite(*lossOfAll));
  skipped = false;
  if (skipsUpdates()) {
    skipped = ended.outputs[skippedOutput] > skippedSoFar;
    skippedSoFar = ended.outputs[skippedOutput];
  }
  losses += isBad;
  if (!isBad || skipped)
    spoiledSince.reset();
  else if (!spoiledSince)
    spoiledSince = ended.number;

  // That a gradient overflows is a scaler's daily business.
  bool isEvent = isBad || (skipped && !isScaler);
  toStop.reset();
  if (stops && isEvent && (isOwn || !isBad))
    toStop = {rank, isBad ? own : 0.0};
  if (!isEvent || stops)
    return "";
  // One that comes and goes is told ever more rarely.
  ++events;
  if (events & (events - 1))
    return "";
  std::string text = isBad ? "the loss of step " : "a gradient of step ";
  text += std::to_string(ended.number) + " is " +
          (isOwn ? describeLoss(own) : "not finite") +
          (isOwn ? " on rank " + std::to_string(rank) : "");
  if (skipped)
    text += isScaler ? "; the scaler skips the step"
                     : "; its update is skipped, on all ranks";
  else
    text += "; training goes on with what it did to the weights, as PyTorch "
            "does (" +
            option + "stop or skip does not)";
  if (events > 1)
    text += "; so far there were " + std::to_string(events) + " such steps";
  return text;
}

void NonFiniteSteps::fill(checkpoint::RunPosition &position) const {
  if (spoiledSince)
    position.metrics.emplace_back(spoiledSinceName, double(*spoiledSince));
}

std::string describeStep(const NonFiniteStep &step, uint64_t number) {
  std::string of = "of step " + std::to_string(number) + " is ";
  if (std::isfinite(step.loss))
    return "a gradient " + of + "not finite";
  return "the loss " + of + describeLoss(step.loss) + " on rank " +
         std::to_string(step.rank);
}

} // namespace fsdp
