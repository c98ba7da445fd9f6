#include "plan/check/UpdateChecker.h"
#include "plan/CommandValues.h"

using namespace fsdp::plan;

void UpdateChecker::check(const Checked &here, const UpdateT &update) {
  here.index(update.rule, plan.rules.size(), "rule");
  here.index(update.parameter, plan.states.size(), "state");
  const StateT &parameter = *plan.states[update.parameter];
  bool isGradient = parameter.role == Role::Gradient && update.states.empty();
  here.require(C25,
               (parameter.role == Role::Parameter || isGradient) &&
                   parameter.flat == -1,
               "updates '", parameter.fqn,
               "', which is neither a parameter nor a gradient");
  checkRange(here, update, parameter);
  OneMemory used;
  checkGradient(here, update, parameter, used);
  for (int scalar : {update.scale, update.skip})
    if (scalar != -1)
      checkScalar(here, scalar, used);
  numbers.checkUpdate(here, update);
  checkRule(here, update);
  checkAllGiven(here, update, used);
  here.require(C25,
               plan.rules[update.rule]->dtypes[1] ==
                   program.values[update.gradient]->dtype,
               "rule '", plan.rules[update.rule]->name, "' is of other dtypes");
  if (update.staged == -1)
    change(here, update, update.parameter, 0, used);
  else
    changeStaged(here, update, used);
  changeStates(here, update, parameter, used);
}

void UpdateChecker::finish(const Checked &at) const {
  for (const auto &[flat, elements] : updatedElements) {
    auto all = facts.members.find(flat);
    at.require(C25,
               all == facts.members.end() ||
                   elements == all->second.inside(0, ~uint64_t(0)),
               "updates some of the members of '", plan.states[flat]->fqn,
               "' only");
  }
}

void UpdateChecker::checkRange(const Checked &here, const UpdateT &update,
                               const StateT &parameter) {
  uint64_t begin = update.begin, end = update.end,
           size = *numElements(parameter.shape);
  here.require(C25, parameter.is_flat || !(begin || end),
               "updates a range of '", parameter.fqn, "', which is not flat");
  if (!begin && !end)
    end = size;
  auto members = facts.members.find(update.parameter);
  std::optional<uint64_t> elements = members == facts.members.end()
                                         ? size
                                         : members->second.inside(begin, end);
  here.require(C25, begin <= end && end <= size && elements, "updates [", begin,
               ", ", end, "), which cuts a member of '", parameter.fqn, "'");
  here.require(C25,
               !updates[update.parameter].add(begin, end, 0) &&
                   (size || withoutElements.insert(update.parameter).second),
               "updates '", parameter.fqn, "' for the second time");
  updatedElements[update.parameter] += *elements;
}

void UpdateChecker::checkGradient(const Checked &here, const UpdateT &update,
                                  const StateT &parameter, OneMemory &used) {
  memory.read(here, update.gradient);
  const ValueT &gradient = *program.values[update.gradient];
  here.require(C25, gradient.shape == parameter.local_shape,
               "the gradient of '", parameter.fqn, "' has shape ",
               formatShape(gradient.shape), ", not ",
               formatShape(parameter.local_shape));
  used.add(here, *gradient.place);
}

void UpdateChecker::checkScalar(const Checked &here, int i, OneMemory &used) {
  memory.read(here, i);
  const ValueT &value = *program.values[i];
  here.require(C25, value.shape.empty() && isFloating(value.dtype), "takes ",
               memory.valueName(i),
               " as a scalar, which is no floating-point number");
  used.add(here, *value.place);
}

void UpdateChecker::checkRule(const Checked &here,
                              const UpdateT &update) const {
  const RuleT &rule = *plan.rules[update.rule];
  size_t operands = 2 + update.states.size() + update.given.size();
  here.require(C25, rule.operands == operands, "rule '", rule.name, "' takes ",
               rule.operands, " operands, given are ", operands);
  here.require(C25, rule.results.size() == 1 + update.states.size(), "rule '",
               rule.name, "' does not give the parameter and each state");
}

void UpdateChecker::checkAllGiven(const Checked &here, const UpdateT &update,
                                  OneMemory &used) {
  UsedBytes changed(*plan.states[update.parameter]->place);
  for (uint32_t state : update.states) {
    here.index(state, plan.states.size(), "state");
    changed.add(*plan.states[state]->place);
  }
  for (size_t i = 0; i < update.given.size(); ++i) {
    checkGiven(here, update, i, used);
    memory.requireApart(here, changed, update.given[i]);
  }
}

void UpdateChecker::checkGiven(const Checked &here, const UpdateT &update,
                               size_t i, OneMemory &used) {
  memory.read(here, update.given[i]);
  const ValueT &given = *program.values[update.given[i]];
  const RuleT &rule = *plan.rules[update.rule];
  const StateT &parameter = *plan.states[update.parameter];
  used.add(here, *given.place);
  size_t operand = 2 + update.states.size() + i;
  bool isState = false;
  memory.budget.look(update.states.size());
  for (size_t s = 0; s < update.states.size(); ++s)
    isState |= rule.results[1 + s] == int(operand) && isReplaced(update, s);
  here.require(C25,
               (given.shape == parameter.local_shape || isState) &&
                   rule.dtypes[operand] == given.dtype,
               "what is given of '", parameter.fqn,
               "' has not its shape, or another dtype than rule '", rule.name,
               "' takes");
}

bool UpdateChecker::isReplaced(const UpdateT &update, size_t i) const {
  const RuleT &rule = *plan.rules[update.rule];
  int64_t result = rule.results[1 + i], first = 2 + update.states.size();
  if (result < first || result - first >= int64_t(update.given.size()) ||
      update.states[i] >= plan.states.size())
    return false;
  bool isRead = false;
  memory.budget.look(rule.calls.size());
  for (const auto &call : rule.calls)
    for (int operand : operandsOf(*call))
      isRead |= operand == result || operand == int64_t(2 + i);
  return !isRead && program.values[update.given[result - first]]->shape ==
                        plan.states[update.states[i]]->local_shape;
}

void UpdateChecker::change(const Checked &here, const UpdateT &update,
                           size_t state, size_t operand, OneMemory &used) {
  const RuleT &rule = *plan.rules[update.rule];
  const Place &place = *plan.states[state]->place;
  used.add(here, place);
  here.require(C25, rule.dtypes[operand] == plan.states[state]->dtype, "rule '",
               rule.name, "' is of other dtypes");
  memory.requireApart(here, UsedBytes(place), update.gradient);
  memory.update(here, state);
}

void UpdateChecker::changeStaged(const Checked &here, const UpdateT &update,
                                 OneMemory &used) {
  const StateT &parameter = *plan.states[update.parameter];
  memory.requireTarget(here, update.staged);
  const ValueT &staged = *program.values[update.staged];
  here.require(C18,
               staged.state == -1 && staged.dtype == parameter.dtype &&
                   staged.shape == parameter.local_shape &&
                   staged.strides == parameter.strides,
               "changes ", memory.valueName(update.staged),
               ", which is no copy of '", parameter.fqn, "'");
  here.require(C25, plan.rules[update.rule]->dtypes[0] == staged.dtype,
               "rule '", plan.rules[update.rule]->name, "' is of other dtypes");
  used.add(here, *staged.place);
  memory.requireApart(here, UsedBytes(*staged.place), update.gradient);
  memory.read(here, update.staged);
  memory.write(here, update.staged);
}

void UpdateChecker::changeStates(const Checked &here, const UpdateT &update,
                                 const StateT &parameter, OneMemory &used) {
  std::set<uint32_t> states;
  for (size_t i = 0; i < update.states.size(); ++i) {
    const StateT &state = *plan.states[update.states[i]];
    here.require(C25,
                 state.parameter == static_cast<int64_t>(update.parameter) &&
                     state.flat == -1 &&
                     (state.local_shape == parameter.local_shape ||
                      isReplaced(update, i)) &&
                     states.insert(update.states[i]).second,
                 "'", state.fqn, "' is not state of '", parameter.fqn,
                 "', or given twice");
    change(here, update, update.states[i], 2 + i, used);
  }
}
