// Tests which commands of a program need which.
#include "trace/CommandOrder.h"

#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

TEST(CommandOrder, AnUpdateNeedsWhatItIsGiven) {
  PlanBuilder b(1);
  unsigned w = b.state("w", plan::Role::Parameter, {2, 4});
  unsigned rule = addSgdRule(b);
  b.program("step");
  int gradient = b.newValue("gradient", {2, 4});
  b.input("gradient", gradient, true);
  int given = b.newValue("given", {2, 4}), loss = b.newValue("loss", {});
  b.aten("aten::mul.Tensor", {value(gradient), value(gradient)}, {given});
  b.aten("aten::sum", {value(gradient)}, {loss});
  b.output("loss", loss);
  b.update(rule, w, gradient);
  plan::ProgramT &step = *b.plan.programs[0];
  step.commands.back()->operation.AsUpdate()->given = {given};
  trace::Needs needs = trace::needsOf(step);
  EXPECT_EQ(needs[1], std::vector<uint32_t>()); // inputs are there already
  EXPECT_EQ(needs[2], std::vector<uint32_t>{0});
}
