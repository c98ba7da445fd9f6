#ifndef FSDP_RUNTIME_PLAN_PROGRAMOUTPUTS_H
#define FSDP_RUNTIME_PLAN_PROGRAMOUTPUTS_H

#include "plan/PlanTypes.h"

#include <string>
#include <utility>
#include <vector>

namespace fsdp::plan {

/// A number has no dimension. What has some is of each sample, along dimension
/// 0, and an evaluation alone gives it.
inline bool isNumber(const ProgramT &program, const OutputT &output) {
  return program.values[output.value]->shape.empty();
}

/// Whether a program is 'eval', or does the same for batches of other shapes.
inline bool isEvaluation(const PlanT &plan, const ProgramT &program) {
  auto of = static_cast<size_t>(program.variant_of);
  return program.name == evalProgramName ||
         (of < plan.programs.size() &&
          plan.programs[of]->name == evalProgramName);
}

/// The outputs that are numbers, or those that are not, in their order.
inline std::vector<const OutputT *> outputsOf(const ProgramT &program,
                                              bool numbers) {
  std::vector<const OutputT *> found;
  for (const auto &output : program.outputs)
    if (isNumber(program, *output) == numbers)
      found.push_back(output.get());
  return found;
}

/// Whether the turns of a step have names, and what it gives is theirs.
inline bool hasTurns(const PlanT &plan, int step) {
  return !plan.programs.at(step)->turn.empty();
}

/// The names of what a step gives, the first of which is "loss". With turns
/// that is the sum of their losses, and each of the others has its turn's name
/// behind it: "loss.generator". `step`: the program that a step begins with.
std::vector<std::string> namesOfStep(const PlanT &plan, int step);

/// The turns of a step by name, and the place of each one's loss among what the
/// step gives. Without turns: "" and 0.
std::vector<std::pair<std::string, size_t>> lossesOfStep(const PlanT &plan,
                                                         int step);

} // namespace fsdp::plan

#endif // FSDP_RUNTIME_PLAN_PROGRAMOUTPUTS_H
