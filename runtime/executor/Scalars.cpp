#include "executor/Scalars.h"

#include "Error.h"

#include <cmath>

namespace fsdp {

std::vector<double> evaluateScalars(const ScalarList &scalars,
                                    const StepContext &context) {
  std::vector<double> values;
  values.reserve(scalars.size());
  for (const auto &s : scalars) {
    // Only earlier ones may be referred to; the checker sees to it, at() holds.
    auto operand = [&](int i) { return values.at(static_cast<size_t>(i)); };
    double v = 0;
    switch (s->kind) {
    case plan::ScalarKind::Constant:
      v = s->value;
      break;
    case plan::ScalarKind::LearningRate:
      v = context.learningRates.at(s->group);
      break;
    case plan::ScalarKind::Step:
      v = static_cast<double>(context.step);
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
      v = operand(s->a) == operand(s->b) ? operand(s->c) : operand(s->d);
      break;
    case plan::ScalarKind::SelectLess:
      v = operand(s->a) < operand(s->b) ? operand(s->c) : operand(s->d);
      break;
    case plan::ScalarKind::SelectLessEqual:
      v = operand(s->a) <= operand(s->b) ? operand(s->c) : operand(s->d);
      break;
    case plan::ScalarKind::SquareRoot:
      v = std::sqrt(operand(s->a));
      break;
    case plan::ScalarKind::Round:
      v = static_cast<float>(operand(s->a));
      break;
    case plan::ScalarKind::State:
      v = context.valueOfState(s->state);
      break;
    }
    values.push_back(v);
  }
  return values;
}

uint64_t learningRateSteps(const plan::PlanT &plan) {
  size_t groups = plan.group_learning_rates.size();
  return groups ? plan.learning_rate_table.size() / groups : 0;
}

std::vector<double> learningRates(const plan::PlanT &plan, uint64_t step) {
  if (plan.learning_rate_table.empty())
    return plan.group_learning_rates;
  if (step > learningRateSteps(plan))
    throw Error("step " + std::to_string(step) +
                " is past the end of the learning-rate table of " +
                std::to_string(learningRateSteps(plan)) +
                " steps; export the step with a longer schedule");
  size_t groups = plan.group_learning_rates.size();
  auto row = plan.learning_rate_table.begin() + (step - 1) * groups;
  return {row, row + groups};
}

} // namespace fsdp
