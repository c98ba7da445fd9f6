#ifndef FSDP_RUNTIME_PLAN_PROGRAMOUTPUTS_H
#define FSDP_RUNTIME_PLAN_PROGRAMOUTPUTS_H

#include "plan/PlanTypes.h"

#include <vector>

namespace fsdp::plan {

/// A number has no dimension. What has some is of each sample, along dimension
/// 0, and an evaluation alone gives it.
inline bool isNumber(const ProgramT &program, const OutputT &output) {
  return program.values[output.value]->shape.empty();
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

} // namespace fsdp::plan

#endif // FSDP_RUNTIME_PLAN_PROGRAMOUTPUTS_H
