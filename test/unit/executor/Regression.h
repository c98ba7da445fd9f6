// Plans whose rules take their learning rate from memory, as on GPUs.
#ifndef FSDP_TEST_UNIT_EXECUTOR_REGRESSION_H
#define FSDP_TEST_UNIT_EXECUTOR_REGRESSION_H

#include "PlanBuilder.h"

#include <memory>
#include <utility>
#include <vector>

namespace fsdp::test {

inline std::unique_ptr<plan::AtenT> call(const char *name, const char *overload,
                                         Arguments arguments,
                                         std::vector<int> results) {
  auto made = std::make_unique<plan::AtenT>();
  made->name = name;
  made->overload = overload;
  for (plan::ArgumentT &argument : arguments)
    made->arguments.push_back(
        std::make_unique<plan::ArgumentT>(std::move(argument)));
  made->results = std::move(results);
  return made;
}

inline plan::ArgumentT float32() {
  plan::ArgumentT dtype;
  dtype.kind = plan::ArgumentKind::DType;
  dtype.i = static_cast<int64_t>(plan::DType::Float32);
  return dtype;
}

/// The plan's rule takes its learning rate from memory, as on GPUs.
inline void holdRate(plan::PlanT &plan) {
  plan::RuleT &rule = *plan.rules[0];
  rule.dtypes.resize(5, plan::DType::Float32);
  rule.calls.clear();
  rule.calls.push_back(
      call("aten::scalar_tensor", "", {scalar(1), float32()}, {3}));
  rule.calls.push_back(call("aten::mul", "Tensor", {value(1), value(3)}, {4}));
  rule.calls.push_back(call("aten::add", "Tensor", {value(0), value(4)}, {2}));
}

/// A step of linear regression on one rank, whose rule takes its rate from
/// memory. It also gives the sum of random numbers.
inline std::unique_ptr<PlanBuilder> regression() {
  auto builder = linearRegression(1, 3, 5, 4);
  PlanBuilder &b = *builder;
  std::swap(b.plan.programs[0], b.plan.programs[1]); // now the step is newest
  int half = b.newValue("half", {64}), drawn = b.newValue("drawn", {64});
  int sum = b.newValue("drawn_sum", {});
  b.aten("aten::full", {integers({64}), number(0.5)}, {half});
  b.aten("aten::bernoulli", {value(half), site(7)}, {drawn});
  b.aten("aten::sum", {value(drawn)}, {sum});
  b.output("drawn_sum", sum);
  std::swap(b.plan.programs[0], b.plan.programs[1]);
  holdRate(b.finish());
  return builder;
}

/// The same with a rule that is one kernel, and an input that says whether to
/// skip the update.
inline std::unique_ptr<PlanBuilder> skippingRegression() {
  auto builder = linearRegression(1, 3, 5, 4);
  PlanBuilder &b = *builder;
  std::swap(b.plan.programs[0], b.plan.programs[1]);
  int skip = b.newValue("skip", {});
  b.input("skip", skip, true);
  for (auto &command : b.plan.programs[1]->commands)
    if (auto *update = command->operation.AsUpdate())
      update->skip = skip;
  std::swap(b.plan.programs[0], b.plan.programs[1]);
  plan::RuleT &rule = *b.plan.rules[0];
  auto flag = [](bool is) {
    plan::ArgumentT argument;
    argument.kind = plan::ArgumentKind::Bool;
    argument.i = is;
    return argument;
  };
  rule.calls.clear();
  rule.calls.push_back(
      call("aten::scalar_tensor", "", {scalar(0), float32()}, {3}));
  rule.calls.push_back(
      call("aten::_fused_sgd", "tensor_lr",
           {values({0}), values({1}), values({}), number(0), number(0),
            value(3), number(0), flag(false), flag(false), flag(false)},
           {2, -1}));
  rule.dtypes.resize(4, plan::DType::Float32);
  b.finish();
  return builder;
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_EXECUTOR_REGRESSION_H
