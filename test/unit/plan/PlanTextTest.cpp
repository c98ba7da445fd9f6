// Tests that a plan's text names each parameter's shapes, placement and offset,
// and the commands.
#include "plan/PlanText.h"
#include "PlanBuilder.h"
#include "plan/OperationText.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace fsdp::plan;
using namespace fsdp::test;

TEST(PlanText, SaysWhereEverythingIs) {
  LoadedPlan loaded = parsePlan(
      serializePlan(linearRegression(4, 10, 4, 5)->finish()), "p", nullptr);
  std::ostringstream out;
  printPlan(loaded, out);
  std::string text = out.str();
  for (const char *line :
       {"mesh shard=4\n", "arena window 0 B\n",
        "parameter w: float32 [10, 4], Shard(0) 3,3,3,1, local [3, 4], at "
        "device 0+48\n",
        "rule sgd.0 of 2 operands\n", "  s1 = -s0\n",
        "  %2 = aten::add.Tensor(%0, %1, s1)\n", "  input x = %0\n",
        "all_gather", " over shard, 12 float32, forward  // model\n",
        "view aten::t(", "  0| update w by sgd.0(%", "program eval: "})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(text.rfind("plan " + loaded.digest + "\n", 0), 0u);
}

TEST(PlanText, SaysWhatACallWasMeasuredToTake) {
  AtenT call;
  call.name = "aten::mm";
  call.recomputed = true;
  EXPECT_EQ(callText(call), "aten::mm() recomputed");
  call.measured_seconds = 1.25e-4;
  EXPECT_EQ(callText(call), "aten::mm() recomputed measured 125.0 us");
}

TEST(PlanText, SaysWhichDeviceItIsFor) {
  auto builder = linearRegression(1, 10, 4, 5);
  PlanT &plan = builder->finish();
  plan.device = DeviceKind::Cuda;
  *plan.rules[0]->calls[0]->arguments[2] = number(-0.1);
  std::ostringstream out;
  printPlan(parsePlan(serializePlan(plan), "p", nullptr), out);
  EXPECT_NE(out.str().find(", for GPUs"), std::string::npos) << out.str();
}
