// What no pass changes: how states begin, what they are called, what the
// optimizer's numbers are, and which inputs are of the data.
#include "Sites.h"

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// A parameter, or its optimizer's state, that `fits`.
StateT *findState(PlanT &plan, Random &random,
                  const std::function<bool(const StateT &)> &fits) {
  std::vector<StateT *> found;
  for (auto &state : plan.states)
    if ((state->role == Role::Parameter || state->role == Role::Optimizer) &&
        fits(*state))
      found.push_back(state.get());
  auto at = pick(found.size(), random);
  return at ? found[*at] : nullptr;
}

bool isAny(const StateT &state) { return !state.is_flat; }
bool isOfModel(const StateT &state) {
  return state.role == Role::Parameter && !state.is_flat;
}

/// A step of a recipe with another number, another draw, or left out; and a
/// recipe for what the weights file has.
Said changeRecipe(PlanT &plan, Random &random) {
  StateT *state = findState(plan, random, isAny);
  if (!state)
    return {};
  auto &steps = state->init;
  auto at = pick(steps.size(), random);
  if (!at) {
    steps.push_back(std::make_unique<InitStepT>());
    steps.back()->a = 0.5;
  } else if (random() % 3 == 0) {
    steps[*at]->a = steps[*at]->a.value_or(0) + 0.5;
  } else if (random() % 2) {
    steps[*at]->draw += 1;
  } else {
    steps.pop_back();
  }
  return say(state->fqn);
}

Said addAlias(PlanT &plan, Random &random) {
  StateT *state = findState(plan, random, isOfModel);
  if (!state)
    return {};
  state->aliases.push_back("another.name");
  return say(state->fqn);
}

Said freeze(PlanT &plan, Random &random) {
  StateT *state = findState(plan, random, isOfModel);
  if (!state)
    return {};
  state->trainable = !state->trainable;
  return say(state->fqn);
}

/// Of a parameter group, in all steps or in one of a schedule.
Said changeGroup(PlanT &plan, Random &random) {
  auto at = pick(plan.hyperparameters.size(), random);
  if (!at)
    return {};
  HyperparameterT &number = *plan.hyperparameters[*at];
  size_t columns = plan.hyperparameters.size();
  if (size_t rows = plan.schedule.size() / columns)
    plan.schedule[random() % rows * columns + *at] += 0.25;
  else
    number.value += 0.25;
  return say(number.name, " of group ", number.group);
}

/// An input that each step repeats becomes one of the data, or the reverse.
Said feedOtherwise(PlanT &plan, Random &random) {
  auto program = pick(plan.programs.size(), random);
  if (!program)
    return {};
  auto &inputs = plan.programs[*program]->inputs;
  auto at = pick(inputs.size(), random);
  if (!at)
    return {};
  inputs[*at]->from_data = !inputs[*at]->from_data;
  return say(inputs[*at]->name);
}

} // namespace

const std::vector<fsdp::test::Mutation> fsdp::test::capturedMutations = {
    {"another first value", changeRecipe},
    {"another name of a state", addAlias},
    {"frozen parameter", freeze},
    {"another number of a parameter group", changeGroup},
    {"input of other data", feedOtherwise},
};
