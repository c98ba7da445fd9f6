// Tests what is alive where a program needs most memory.
#include "trace/Peak.h"

#include "PlanBuilder.h"

#include <gtest/gtest.h>

#include <map>

using namespace fsdp;
using namespace fsdp::test;

TEST(Peak, AStateIsOfItsParametersModule) {
  PlanBuilder b(1);
  unsigned weight = b.state("blocks.0.up.weight", plan::Role::Parameter, {64});
  unsigned moment =
      b.state("blocks.0.up.weight/m", plan::Role::Optimizer, {64});
  unsigned flat = b.state("blocks.1/flat.0", plan::Role::Parameter, {64});
  unsigned flatMoment =
      b.state("blocks.1/flat.0/m", plan::Role::Optimizer, {64});
  b.state("scale", plan::Role::Parameter, {64});
  b.plan.states[moment]->parameter = int(weight);
  b.plan.states[flatMoment]->parameter = int(flat);
  b.plan.units.push_back(std::make_unique<plan::UnitT>());
  b.plan.units[0]->name = "blocks.1";
  b.plan.states[flat]->unit = 0;
  for (unsigned state : {flat, flatMoment})
    b.plan.states[state]->is_flat = true;
  b.program("step");
  plan::PlanT &plan = b.finish();
  cost::Cluster cluster;
  trace::CommandTexts texts(plan, *plan.programs[0], cluster);
  std::map<std::string, std::string> modules;
  for (const trace::LiveTensor &tensor :
       trace::peakOf(plan, *plan.programs[0], texts, plan::deviceArena).tensors)
    modules[tensor.name] = tensor.module;
  EXPECT_EQ(modules, (std::map<std::string, std::string>{
                         {"blocks.0.up.weight", "blocks.0.up"},
                         {"blocks.0.up.weight/m", "blocks.0.up"},
                         {"blocks.1/flat.0", "blocks.1"},
                         {"blocks.1/flat.0/m", "blocks.1"},
                         {"scale", ""}}));
}
