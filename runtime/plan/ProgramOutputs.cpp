#include "plan/ProgramOutputs.h"

std::vector<std::string> fsdp::plan::namesOfStep(const PlanT &plan, int step) {
  std::vector<std::string> names;
  if (hasTurns(plan, step))
    names.push_back("loss");
  for (int program : turnsFrom(plan, step)) {
    const ProgramT &turn = *plan.programs.at(program);
    for (const auto &output : turn.outputs)
      names.push_back(output->name +
                      (turn.turn.empty() ? "" : "." + turn.turn));
  }
  return names;
}

std::vector<std::pair<std::string, size_t>>
fsdp::plan::lossesOfStep(const PlanT &plan, int step) {
  std::vector<std::pair<std::string, size_t>> losses;
  size_t place = hasTurns(plan, step);
  for (int program : turnsFrom(plan, step)) {
    losses.emplace_back(plan.programs.at(program)->turn, place);
    place += plan.programs.at(program)->outputs.size();
  }
  return losses;
}
