// Tests that step scalars are what Python computes in double.
#include "executor/Scalars.h"

#include "Error.h"
#include "ErrorKind.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace fsdp;

static std::unique_ptr<plan::ScalarT> scalar(plan::ScalarKind kind, int a = -1,
                                             int b = -1, double value = 0) {
  auto s = std::make_unique<plan::ScalarT>();
  s->kind = kind;
  s->a = a;
  s->b = b;
  s->value = value;
  return s;
}

TEST(Scalars, BiasCorrectionOfAdam) {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 0.9));
  list.push_back(scalar(plan::ScalarKind::Step));
  list.push_back(scalar(plan::ScalarKind::Power, 0, 1));
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 1.0));
  list.push_back(scalar(plan::ScalarKind::Subtract, 3, 2));
  list.push_back(scalar(plan::ScalarKind::Hyperparameter));
  list.push_back(scalar(plan::ScalarKind::Divide, 5, 4));
  for (uint64_t step : {1, 2, 1000})
    EXPECT_EQ(evaluateScalars(list, {step, {1e-3}}).back(),
              1e-3 / (1.0 - std::pow(0.9, double(step))));
}

TEST(Scalars, KnowTheRank) {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Rank));
  StepContext context;
  EXPECT_EQ(evaluateScalars(list, context), (std::vector<double>{0}));
  context.rank = 3;
  EXPECT_EQ(evaluateScalars(list, context), (std::vector<double>{3}));
}

TEST(Scalars, SelectComparesForOrder) {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Step));
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 2.0));
  for (auto kind :
       {plan::ScalarKind::SelectLess, plan::ScalarKind::SelectLessEqual}) {
    list.push_back(scalar(kind, 0, 1));
    list.back()->c = 0;
    list.back()->d = 1;
  }
  EXPECT_EQ(evaluateScalars(list, {1, {}}), (std::vector<double>{1, 2, 1, 1}));
  list[1]->value = 3.0;
  EXPECT_EQ(evaluateScalars(list, {3, {}}), (std::vector<double>{3, 3, 3, 3}));
  list[1]->value = -1.0;
  EXPECT_EQ(evaluateScalars(list, {3, {}}),
            (std::vector<double>{3, -1, -1, -1}));
}

TEST(Scalars, RootsAndNumbersOfLessPrecision) {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 0.1));
  list.push_back(scalar(plan::ScalarKind::SquareRoot, 0));
  list.push_back(scalar(plan::ScalarKind::Round, 0));
  EXPECT_EQ(evaluateScalars(list, {1, {}}),
            (std::vector<double>{0.1, std::sqrt(0.1), double(0.1f)}));
  list[1]->kind = plan::ScalarKind::Exponential;
  list[2]->kind = plan::ScalarKind::Logarithm;
  list.push_back(scalar(plan::ScalarKind::Cosine, 0));
  EXPECT_EQ(
      evaluateScalars(list, {1, {}}),
      (std::vector<double>{0.1, std::exp(0.1), std::log(0.1), std::cos(0.1)}));
}

/// eta = lr * eta of the step before, 0.5 at first.
static ScalarList product() {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 0.5));
  list.push_back(scalar(plan::ScalarKind::Former, 3, 0));
  list.push_back(scalar(plan::ScalarKind::Hyperparameter));
  list.push_back(scalar(plan::ScalarKind::Multiply, 1, 2));
  return list;
}

TEST(Scalars, FormerOnesFollowFromEachStepBefore) {
  ScalarList list = product();
  std::vector<uint64_t> repeated;
  auto at = [&](StepScalars &scalars, uint64_t step) {
    auto rate = [](uint64_t step) { return 1.0 / double(step + 1); };
    StepContext context{step, {rate(step)}};
    context.before = [&, rate](uint64_t earlier) {
      repeated.push_back(earlier);
      return std::vector<double>{rate(earlier)};
    };
    scalars.beginStep(context);
    return scalars.values()[1];
  };
  StepScalars scalars(list);
  // The same step again, as micro-batches and evaluations are: the same number.
  for (uint64_t step : {1, 1, 2, 3, 3, 4})
    EXPECT_EQ(at(scalars, step),
              std::vector<double>(
                  {0.5, 0.5 / 2, 0.5 / 2 / 3, 0.5 / 2 / 3 / 4})[step - 1]);
  EXPECT_TRUE(repeated.empty());
  // After a checkpoint is resumed, and back.
  StepScalars resumed(list);
  EXPECT_EQ(at(resumed, 4), 0.5 / 2 / 3 / 4);
  EXPECT_EQ(repeated, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(at(resumed, 2), 0.5 / 2);
  EXPECT_EQ(at(resumed, 1), 0.5);
}

TEST(Scalars, AFormerOneOfStepsThatAreNotKnownIsRefused) {
  ScalarList list = product();
  StepScalars scalars(list);
  StepContext context{3, {0.1}};
  context.before = [](uint64_t) { return std::vector<double>{std::nan("")}; };
  EXPECT_THROW(scalars.beginStep(context), Error);
  // Also the largest rate so far, max(former, lr).
  list.back()->kind = plan::ScalarKind::SelectLess;
  list.back()->c = 2;
  list.back()->d = 1;
  StepScalars largest(list);
  EXPECT_THROW(largest.beginStep(context), Error);
}

TEST(Scalars, SelectComparesForEquality) {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Step));
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 1.0));
  list.push_back(scalar(plan::ScalarKind::Constant, -1, -1, 7.0));
  list.push_back(scalar(plan::ScalarKind::Select, 0, 1));
  list.back()->c = 2;
  list.back()->d = 0;
  EXPECT_EQ(evaluateScalars(list, {1, {}}).back(), 7.0);
  EXPECT_EQ(evaluateScalars(list, {3, {}}).back(), 3.0);
}

TEST(Scalars, AStatesNumberIsThatBeforeTheStep) {
  ScalarList list;
  list.push_back(scalar(plan::ScalarKind::Step));
  list.push_back(scalar(plan::ScalarKind::State));
  list.back()->state = 4;
  list.push_back(scalar(plan::ScalarKind::Subtract, 0, 1));
  auto valueOf = [](int state) { return state == 4 ? 2.0 : 0.0; };
  EXPECT_EQ(evaluateScalars(list, {5, {}, valueOf}).back(), 3.0);
}

TEST(Scalars, HyperparametersFollowTheSchedule) {
  plan::PlanT plan;
  for (const char *name : {"lr", "lr", "momentum"}) {
    auto one = std::make_unique<plan::HyperparameterT>();
    one->name = name;
    one->group = plan.hyperparameters.size() % 2;
    one->value = plan.hyperparameters.size() + 1;
    plan.hyperparameters.push_back(std::move(one));
  }
  EXPECT_EQ(hyperparameters(plan, 9), (std::vector<double>{1, 2, 3}));
  plan.schedule = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(scheduledSteps(plan), 2u);
  EXPECT_EQ(hyperparameters(plan, 2), (std::vector<double>{4, 5, 6}));
  EXPECT_EQ(learningRates(plan, 2), (std::vector<double>{4, 5}));
  EXPECT_EQ(test::identifierThrownBy([&] { hyperparameters(plan, 3); }),
            "FSDP-E0801");
}
