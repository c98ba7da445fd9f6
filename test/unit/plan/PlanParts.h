// A valid plan, and the parts of it that tests break.
#ifndef FSDP_TEST_UNIT_PLAN_PLANPARTS_H
#define FSDP_TEST_UNIT_PLAN_PLANPARTS_H

#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

namespace fsdp::test {

inline plan::ProgramT &step(plan::PlanT &plan) { return *plan.programs[0]; }

template <typename T>
T &find(plan::PlanT &plan, T *(plan::OperationUnion::*as)(), int skip = 0) {
  for (auto &command : step(plan).commands)
    if (T *operation = (command->operation.*as)())
      if (skip-- == 0)
        return *operation;
  throw std::logic_error("the plan has no such command");
}

inline int valueNamed(plan::PlanT &plan, const std::string &name) {
  auto &values = step(plan).values;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]->name == name)
      return i;
  throw std::logic_error("the plan has no value " + name);
}
inline plan::ValueT &named(plan::PlanT &plan, const std::string &name) {
  return *step(plan).values[valueNamed(plan, name)];
}

/// Breaks a valid plan in each way of a table.
struct BrokenPlan : ::testing::TestWithParam<Break<plan::PlanT>> {
  static std::string nameOf(const ::testing::TestParamInfo<ParamType> &info) {
    return info.param.name;
  }

  void expectRefused() const {
    auto builder = linearRegression(2, 3, 4, 5);
    plan::PlanT &plan = builder->finish();
    GetParam().apply(plan);
    GetParam().expectRefused(plan);
  }
};

} // namespace fsdp::test

#define AS(Op) &OperationUnion::As##Op

#endif // FSDP_TEST_UNIT_PLAN_PLANPARTS_H
