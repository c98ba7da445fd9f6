// Tests that the compiler's table of schemas says of every operator what the
// dispatcher says when a plan is loaded.
#include "fsdp/Dialect/Aten/Schema.h"
#include "operators/DispatcherSchemas.h"
#include "plan/check/OperatorChecker.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp;

static std::string textOf(const std::vector<plan::SchemaValue> &values) {
  std::string text;
  for (const plan::SchemaValue &value : values) {
    std::vector<std::string> sets = value.sets;
    std::sort(sets.begin(), sets.end());
    text += value.type.str() + "(";
    for (const std::string &set : sets)
      text += set + " ";
    text += value.isWritten ? "!) " : ") ";
    text += value.name + (value.hasDefault ? "=, " : ", ");
  }
  return text;
}

static std::string textOf(const std::optional<plan::OperatorSchema> &schema) {
  return schema ? textOf(schema->arguments) + "-> " + textOf(schema->results)
                : "none";
}

TEST(Schemas, AreTheSameInBothHalves) {
  ASSERT_TRUE(findDispatcherSchema("fsdp_mlir::power_sum", ""));
  unsigned count = 0;
  for (const c10::OperatorName &op :
       c10::Dispatcher::singleton().getAllOpNames()) {
    bool isOurs =
        op.name.rfind("aten::", 0) == 0 || op.name.rfind("fsdp_mlir::", 0) == 0;
    auto schema = findDispatcherSchema(op.name, op.overload_name);
    // Distributed autograd registers one that no plan may call.
    if (!isOurs || !schema || op.name == "aten::get_gradients")
      continue;
    ++count;
    EXPECT_EQ(textOf(schema),
              textOf(aten::findOperatorSchema(op.name, op.overload_name)))
        << op.name << "." << op.overload_name;
  }
  EXPECT_GT(count, 3000u);
}

/// What the checker says of a plan's only call, with no argument.
static std::string refusalOf(const c10::OperatorName &op) {
  plan::PlanT plan;
  plan.rules.push_back(std::make_unique<plan::RuleT>());
  plan.rules[0]->calls.push_back(std::make_unique<plan::AtenT>());
  plan.rules[0]->calls[0]->name = op.name;
  plan.rules[0]->calls[0]->overload = op.overload_name;
  try {
    plan::checkOperators(plan, findDispatcherSchema);
    return "";
  } catch (const plan::PlanError &error) {
    return error.what();
  }
}

TEST(Schemas, OperatorsThatDrawInSecretAreRefused) {
  std::vector<std::string> found;
  for (const c10::OperatorName &op :
       c10::Dispatcher::singleton().getAllOpNames()) {
    auto handle = c10::Dispatcher::singleton().findOp(op);
    if (op.name.rfind("aten::", 0) != 0 || !handle || !handle->hasSchema() ||
        !handle->hasTag(at::Tag::nondeterministic_seeded))
      continue;
    auto schema = *findDispatcherSchema(op.name, op.overload_name);
    // Of those with a generator C31 wants the site, of dropouts that they are
    // 0.
    bool isSeen = false;
    for (const plan::SchemaValue &argument : schema.arguments)
      isSeen |= argument.type.kind == plan::SchemaKind::Generator ||
                argument.name == "dropout" || argument.name == "dropout_p";
    if (!isSeen && refusalOf(op).find("C30: ") == std::string::npos)
      found.push_back(op.name + "." + op.overload_name);
  }
  EXPECT_EQ(found, std::vector<std::string>());
}
