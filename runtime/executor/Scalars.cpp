#include "executor/Scalars.h"

#include "Error.h"

#include <algorithm>
#include <cmath>

namespace fsdp {

std::vector<double> evaluateScalars(const ScalarList &scalars,
                                    const StepContext &context,
                                    const std::vector<double> &former) {
  std::vector<double> values;
  values.reserve(scalars.size());
  for (const auto &s : scalars) {
    // Only earlier ones may be referred to; the checker sees to it, at() holds.
    auto operand = [&](int i) { return values.at(static_cast<size_t>(i)); };
    // What is chosen by a number that is not known is not known either.
    auto choose = [&](bool holds) {
      bool known = !std::isnan(operand(s->a)) && !std::isnan(operand(s->b));
      return known ? operand(holds ? s->c : s->d) : std::nan("");
    };
    double v = 0;
    switch (s->kind) {
    case plan::ScalarKind::Constant:
      v = s->value.value_or(0);
      break;
    case plan::ScalarKind::Hyperparameter:
      v = context.hyperparameters.at(s->hyperparameter);
      break;
    case plan::ScalarKind::Step:
      v = static_cast<double>(context.step);
      break;
    case plan::ScalarKind::Rank:
      v = context.rank;
      break;
    case plan::ScalarKind::Add:
      v = operand(s->a) + operand(s->b);
      break;
    case plan::ScalarKind::Subtract:
      v = operand(s->a) - operand(s->b);
      break;
    case plan::ScalarKind::Multiply:
      v = operand(s->a) * operand(s->b);
      break;
    case plan::ScalarKind::Divide:
      v = operand(s->a) / operand(s->b);
      break;
    case plan::ScalarKind::Power:
      v = std::pow(operand(s->a), operand(s->b));
      break;
    case plan::ScalarKind::Negate:
      v = -operand(s->a);
      break;
    case plan::ScalarKind::Select:
      v = choose(operand(s->a) == operand(s->b));
      break;
    case plan::ScalarKind::SelectLess:
      v = choose(operand(s->a) < operand(s->b));
      break;
    case plan::ScalarKind::SelectLessEqual:
      v = choose(operand(s->a) <= operand(s->b));
      break;
    case plan::ScalarKind::SquareRoot:
      v = std::sqrt(operand(s->a));
      break;
    case plan::ScalarKind::Exponential:
      v = std::exp(operand(s->a));
      break;
    case plan::ScalarKind::Logarithm:
      v = std::log(operand(s->a));
      break;
    case plan::ScalarKind::Cosine:
      v = std::cos(operand(s->a));
      break;
    case plan::ScalarKind::Round:
      v = static_cast<float>(operand(s->a));
      break;
    case plan::ScalarKind::State:
      v = context.valueOfState(s->state);
      break;
    case plan::ScalarKind::Former:
      v = former.empty() ? operand(s->b) : former.at(s->a);
      break;
    }
    values.push_back(v);
  }
  return values;
}

StepScalars::StepScalars(const ScalarList &scalars)
    : scalars(scalars), followsFormer(std::any_of(
                            scalars.begin(), scalars.end(), [](const auto &s) {
                              return s->kind == plan::ScalarKind::Former;
                            })) {}

void StepScalars::beginStep(const StepContext &context) {
  if (followsFormer && context.step != step) {
    uint64_t last = context.step < step ? 0 : step;
    bool repeats = last + 1 < context.step;
    step = 0;
    for (uint64_t next = last + 1; next <= context.step; ++next) {
      former = next == 1 ? std::vector<double>() : std::move(now);
      if (next < context.step)
        now = evaluateScalars(
            scalars, {next, context.before(next), {}, {}, context.rank},
            former);
    }
    if (repeats)
      checkKnown();
  }
  now = evaluateScalars(scalars, context, former);
  step = context.step;
}

void StepScalars::checkKnown() const {
  for (const auto &s : scalars)
    if (s->kind == plan::ScalarKind::Former && std::isnan(former.at(s->a)))
      throw Error(E::Schedule,
                  "a number of the optimizer follows from the learning rates "
                  "of all earlier steps, which were set one by one and are not "
                  "known after a checkpoint is resumed; export the step with "
                  "lr_schedule");
}

uint64_t scheduledSteps(const plan::PlanT &plan) {
  size_t columns = plan.hyperparameters.size();
  return columns ? plan.schedule.size() / columns : 0;
}

std::vector<double> hyperparameters(const plan::PlanT &plan, uint64_t step) {
  std::vector<double> values;
  if (plan.schedule.empty()) {
    for (const auto &one : plan.hyperparameters)
      values.push_back(one->value);
    return values;
  }
  if (step > scheduledSteps(plan))
    throw Error(E::RunLength,
                "step " + std::to_string(step) +
                    " is past the end of the schedule of " +
                    std::to_string(scheduledSteps(plan)) +
                    " steps; export the step with a longer schedule");
  size_t columns = plan.hyperparameters.size();
  auto row = plan.schedule.begin() + (step - 1) * columns;
  return {row, row + columns};
}

std::vector<double> learningRates(const plan::PlanT &plan, uint64_t step) {
  std::vector<double> rates, values = hyperparameters(plan, step);
  for (size_t i = 0; i < values.size(); ++i)
    if (plan.hyperparameters[i]->name == "lr")
      rates.push_back(values[i]);
  return rates;
}

void replaceLearningRates(const plan::PlanT &plan,
                          const std::vector<double> &rates,
                          std::vector<double> &values) {
  size_t group = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (plan.hyperparameters[i]->name == "lr")
      values[i] = rates.at(group++);
}

} // namespace fsdp
