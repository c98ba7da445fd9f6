// What is the same for all programs of a plan: states and their members,
// numbers, rules.
#include "plan/StateNames.h"
#include "plan/meaning/ProgramTerms.h"

#include <algorithm>

using namespace fsdp::plan;

/// What no pass changes of a state: what the user's model and its optimizer say
/// it is, and how it begins.
static Digest digestOfState(const PlanT &plan, const StateT &state) {
  DigestOf digest;
  digest << std::string("state") << state.fqn << uint64_t(state.role)
         << uint64_t(state.dtype) << state.shape << uint64_t(state.trainable)
         << uint64_t(state.persistent)
         << (state.parameter == -1 ? std::string()
                                   : plan.states[state.parameter]->fqn)
         << uint64_t(state.aliases.size());
  for (const std::string &alias : state.aliases)
    digest << alias;
  digest << uint64_t(state.init.size());
  for (const auto &step : state.init) {
    digest << uint64_t(step->kind) << uint64_t(step->a.has_value())
           << step->a.value_or(0) << step->b << uint64_t(step->draw)
           << uint64_t(step->region != nullptr);
    if (step->region)
      digest << step->region->offset << step->region->sizes
             << step->region->strides;
  }
  return digest.get();
}

/// A number of a parameter group, in each step of a schedule.
static Digest digestOfHyperparameter(const PlanT &plan, size_t index) {
  const HyperparameterT &number = *plan.hyperparameters[index];
  DigestOf digest;
  digest << number.name << uint64_t(number.group) << number.value;
  for (size_t i = index; i < plan.schedule.size();
       i += plan.hyperparameters.size())
    digest << plan.schedule[i];
  return digest.get();
}

PlanTerms::PlanTerms(const PlanT &plan) : plan(plan) {
  for (size_t i = 0; i < plan.hyperparameters.size(); ++i)
    hyperparameters.push_back(digestOfHyperparameter(plan, i));
  for (size_t s = 0; s < plan.states.size(); ++s) {
    const StateT &state = *plan.states[s];
    states.push_back(digestOfState(plan, state));
    if (state.flat != -1)
      members[state.flat].push_back(s);
    uint32_t in = state.flat != -1 ? state.flat : s;
    int parameter = state.role == Role::Parameter ? int(s) : state.parameter;
    if (parameter != -1)
      ofParameter[{in, parameter}] = s;
  }
  for (auto &[flat, list] : members)
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      return plan.states[a]->flat_offset < plan.states[b]->flat_offset;
    });
  for (const auto &rule : plan.rules)
    rules.push_back(digestOfRule(*rule));
}

std::vector<uint32_t> PlanTerms::membersOf(uint32_t state, uint64_t begin,
                                           uint64_t end) const {
  if (!plan.states[state]->is_flat)
    return {state};
  auto it = members.find(state);
  if (it == members.end())
    return {};
  const std::vector<uint32_t> &all = it->second;
  if (!begin && !end)
    return all;
  auto first = [&](uint64_t offset) {
    return std::partition_point(all.begin(), all.end(), [=](uint32_t member) {
      return plan.states[member]->flat_offset < offset;
    });
  };
  return {first(begin), first(end)};
}

int PlanTerms::memberOf(uint32_t state, uint32_t parameter) const {
  auto it = ofParameter.find({state, parameter});
  return it == ofParameter.end() ? -1 : it->second;
}

std::vector<Digest>
PlanTerms::numbers(const std::vector<std::unique_ptr<ScalarT>> &scalars) const {
  std::vector<Digest> digests;
  for (const auto &scalar : scalars) {
    // Where steps are skipped, a rule counts the others: those that were done.
    if (scalar->kind == ScalarKind::Subtract &&
        scalars[scalar->a]->kind == ScalarKind::Step &&
        scalars[scalar->b]->kind == ScalarKind::State &&
        plan.states[scalars[scalar->b]->state]->fqn == skippedStateName) {
      digests.push_back(digests[scalar->a]);
      continue;
    }
    DigestOf digest;
    digest << uint64_t(scalar->kind) << scalar->value.value_or(0);
    if (scalar->kind == ScalarKind::Hyperparameter)
      digest << hyperparameters[scalar->hyperparameter];
    if (scalar->kind == ScalarKind::State)
      digest << states[scalar->state];
    int64_t own = digests.size();
    for (int64_t operand : {scalar->a, scalar->b, scalar->c, scalar->d})
      if (operand >= 0 && operand < own)
        digest << digests[operand];
      else // none, or what this one becomes
        digest << static_cast<uint64_t>(operand < 0 ? operand : operand - own);
    digests.push_back(digest.get());
  }
  return digests;
}

Digest PlanTerms::digestOfRule(const RuleT &rule) const {
  std::vector<Digest> scalars = numbers(rule.scalars);
  DigestOf digest;
  digest << uint64_t(rule.operands) << uint64_t(rule.dtypes.size());
  for (DType dtype : rule.dtypes)
    digest << uint64_t(dtype);
  for (const auto &call : rule.calls) {
    addCall(digest, *call, scalars,
            [&](int value) { digest << static_cast<uint64_t>(value); });
    for (int result : call->results)
      digest << static_cast<uint64_t>(result);
  }
  for (int result : rule.results)
    digest << static_cast<uint64_t>(result);
  return digest.get();
}
