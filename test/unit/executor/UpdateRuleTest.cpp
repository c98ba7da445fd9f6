// Tests that a rule sees the gradient times a scale with the bits of
// multiplying it before.
#include "executor/UpdateRule.h"

#include "TensorFunctions.h"
#include "executor/HostBackend.h"

#include <gtest/gtest.h>

using namespace fsdp;

namespace {

std::unique_ptr<plan::ArgumentT> value(int index) {
  auto argument = std::make_unique<plan::ArgumentT>();
  argument->kind = plan::ArgumentKind::Value;
  argument->value = index;
  return argument;
}

/// p + g * g.
plan::RuleT addSquare() {
  plan::RuleT rule;
  rule.name = "square";
  rule.operands = 2;
  rule.dtypes.assign(4, plan::DType::Float32);
  for (auto [name, a, b, result] :
       {std::tuple("aten::mul", 1, 1, 2), std::tuple("aten::add", 0, 2, 3)}) {
    auto call = std::make_unique<plan::AtenT>();
    call->name = name;
    call->overload = "Tensor";
    call->arguments.push_back(value(a));
    call->arguments.push_back(value(b));
    if (call->name == "aten::add")
      call->arguments.push_back(std::make_unique<plan::ArgumentT>());
    call->results = {result};
    rule.calls.push_back(std::move(call));
  }
  rule.results = {3};
  return rule;
}

} // namespace

TEST(UpdateRule, SeesTheGradientTimesTheScale) {
  plan::RuleT plan = addSquare();
  SiteRandom random(0, 0, false, hostKernels());
  UpdateRule rule(plan, random);
  rule.beginStep({});
  // More than a chunk, and no multiple of one.
  at::Tensor gradient = at::sin(at::arange(40'001, at::kFloat));
  at::Tensor scale = at::full({}, 0.37f), start = at::ones({40'001});
  at::Tensor scaled = start.clone(), before = start.clone();
  rule.apply({scaled, gradient}, scale);
  rule.apply({before, at::mul(gradient, scale)});
  EXPECT_TRUE(at::equal(scaled, before));
  EXPECT_FALSE(at::equal(scaled, start));
}

TEST(UpdateRule, ReadsWhatIsGivenBehindTheStates) {
  plan::RuleT plan;
  plan.operands = 3; // parameter, gradient, given
  plan.dtypes.assign(4, plan::DType::Float32);
  auto call = std::make_unique<plan::AtenT>();
  call->name = "aten::mul";
  call->overload = "Tensor";
  call->arguments.push_back(value(1));
  call->arguments.push_back(value(2));
  call->results = {3};
  plan.calls.push_back(std::move(call));
  plan.results = {3};
  SiteRandom random(0, 0, false, hostKernels());
  UpdateRule rule(plan, random);
  rule.beginStep({});
  // More than a chunk: each element meets its own.
  at::Tensor gradient = at::arange(40'001, at::kFloat), given = gradient + 1;
  at::Tensor actual = at::zeros({40'001});
  rule.apply({actual, gradient, given});
  EXPECT_TRUE(at::equal(actual, at::mul(gradient, given)));
  EXPECT_TRUE(at::equal(given, gradient + 1));
}

TEST(UpdateRule, ScalesWhatDoesNotLieAsTheParameter) {
  plan::RuleT plan = addSquare();
  SiteRandom random(0, 0, false, hostKernels());
  UpdateRule rule(plan, random);
  rule.beginStep({});
  at::Tensor gradient = at::sin(at::arange(12, at::kFloat)).view({3, 4}).t();
  at::Tensor scale = at::full({}, 3.0), actual = at::zeros({4, 3});
  rule.apply({actual, gradient}, scale);
  at::Tensor product = at::mul(gradient, scale);
  EXPECT_TRUE(at::equal(actual, at::mul(product, product)));
}

namespace {

/// SGD with momentum as PyTorch's fused kernel, of which each list is one
/// value.
plan::RuleT fusedSgd(int parameter, int gradient, int buffer,
                     uint32_t operands) {
  plan::RuleT rule;
  rule.name = "fused";
  rule.operands = operands;
  rule.dtypes.assign(operands + 3, plan::DType::Float32);
  auto call = std::make_unique<plan::AtenT>();
  call->name = "aten::_fused_sgd";
  for (int v : {parameter, gradient, buffer}) {
    call->arguments.push_back(std::make_unique<plan::ArgumentT>());
    call->arguments.back()->kind = plan::ArgumentKind::ValueList;
    call->arguments.back()->values = {v};
  }
  for (double d : {0.0, 0.9, 0.1, 0.0}) {
    call->arguments.push_back(std::make_unique<plan::ArgumentT>());
    call->arguments.back()->kind = plan::ArgumentKind::Double;
    call->arguments.back()->d = d;
  }
  for (int i = 0; i < 3; ++i) {
    call->arguments.push_back(std::make_unique<plan::ArgumentT>());
    call->arguments.back()->kind = plan::ArgumentKind::Bool;
  }
  int first = operands;
  call->results = {first, first + 1, first + 2};
  rule.results = {first};
  if (operands > 2)
    rule.results.push_back(first + 2);
  rule.calls.push_back(std::move(call));
  return rule;
}

} // namespace

TEST(UpdateRule, WritesNoOperandThatNoResultReplaces) {
  // The gradient stands where the momentum does, which the kernel writes.
  plan::RuleT plan = fusedSgd(0, 1, 1, 2);
  SiteRandom random(0, 0, false, hostKernels());
  UpdateRule rule(plan, random);
  rule.beginStep({});
  at::Tensor parameter = at::ones({40}), gradient = at::full({40}, 2.0f);
  rule.apply({parameter, gradient});
  EXPECT_TRUE(at::equal(gradient, at::full({40}, 2.0f)));
  EXPECT_FALSE(at::equal(parameter, at::ones({40})));
}

TEST(UpdateRule, ComparesTheListsOfAFusedOptimizer) {
  plan::RuleT plan = fusedSgd(0, 1, 2, 3);
  auto sum = std::make_unique<plan::AtenT>();
  sum->name = "aten::sum";
  sum->arguments.push_back(value(1));
  sum->results = {6};
  plan.dtypes.push_back(plan::DType::Float32);
  plan.calls.insert(plan.calls.begin(), std::move(sum));
  plan.calls.back()->arguments[1]->values = {6};
  SiteRandom random(0, 0, false, hostKernels());
  UpdateRule rule(plan, random);
  rule.beginStep({});
  at::Tensor parameter = at::ones({40});
  EXPECT_THROW(rule.apply({parameter, at::ones({40}), at::ones({40})}), Error);
}

TEST(UpdateRule, UpdatesSeveralParametersAsOneByOne) {
  plan::RuleT plan = fusedSgd(0, 1, 2, 3);
  SiteRandom random(0, 0, false, hostKernels());
  UpdateRule rule(plan, random);
  rule.beginStep({});
  auto parameters = [] {
    std::vector<std::vector<at::Tensor>> all;
    for (int64_t length : {48, 16, 160})
      all.push_back({at::ones({length}),
                     at::sin(at::arange(length, at::kFloat)),
                     at::cos(at::arange(length, at::kFloat))});
    return all;
  };
  auto together = parameters(), apart = parameters();
  for (int step = 0; step < 2; ++step) {
    std::vector<const std::vector<at::Tensor> *> all;
    for (const auto &operands : together) {
      EXPECT_TRUE(rule.canGroup(operands));
      all.push_back(&operands);
    }
    rule.applyTogether(all);
    for (const auto &operands : apart)
      rule.apply(operands);
  }
  for (size_t k = 0; k < apart.size(); ++k)
    for (size_t i : {0, 2})
      EXPECT_TRUE(at::equal(together[k][i], apart[k][i]));
}

TEST(UpdateRule, GroupsWhatItsKernelTakesAsItIs) {
  SiteRandom random(0, 0, false, hostKernels());
  plan::RuleT fused = fusedSgd(0, 1, 2, 3), square = addSquare();
  UpdateRule rule(fused, random), pointwise(square, random);
  std::vector<at::Tensor> three(3, at::ones({4, 4}));
  EXPECT_TRUE(rule.canGroup(three));
  // A CPU's kernel rounds otherwise where elements fill no vector.
  EXPECT_FALSE(rule.canGroup(std::vector<at::Tensor>(3, at::ones({5}))));
  EXPECT_FALSE(rule.canGroup(std::vector<at::Tensor>(3, at::ones({0}))));
  EXPECT_FALSE(rule.canGroup({three[0], three[1].t(), three[2]}));
  EXPECT_FALSE(pointwise.canGroup(std::vector<at::Tensor>(2, at::ones({16}))));
}

namespace {

/// p + 0.3 g in a type of 16 bits.
plan::RuleT addScaled(plan::DType dtype) {
  plan::RuleT rule;
  rule.operands = 2;
  rule.dtypes.assign(3, dtype);
  auto call = std::make_unique<plan::AtenT>();
  call->name = "aten::add";
  call->overload = "Tensor";
  call->arguments.push_back(value(0));
  call->arguments.push_back(value(1));
  call->arguments.push_back(std::make_unique<plan::ArgumentT>());
  call->arguments.back()->kind = plan::ArgumentKind::Double;
  call->arguments.back()->d = 0.3;
  call->results = {2};
  rule.calls.push_back(std::move(call));
  rule.results = {2};
  return rule;
}

} // namespace

TEST(UpdateRule, RoundsPartsOf16BitsAsPyTorchDoesTheWhole) {
  for (auto [dtype, type] : {std::pair(plan::DType::BFloat16, at::kBFloat16),
                             std::pair(plan::DType::Float16, at::kHalf)}) {
    plan::RuleT plan = addScaled(dtype);
    SiteRandom random(0, 0, false, hostKernels());
    UpdateRule rule(plan, random);
    rule.beginStep({});
    ASSERT_TRUE(rule.readsLeftover());
    constexpr int64_t count = 6'007;
    at::Tensor start = at::sin(at::arange(count)).to(type);
    at::Tensor gradient = at::cos(at::arange(count)).to(type);
    at::Tensor whole = at::add(start, gradient, 0.3), parts = start.clone();
    int64_t last = count - count % rule.elementsAtATime();
    // The middle part begins inside a vector and ends among those left over.
    for (auto [begin, end] : {std::pair<int64_t, int64_t>(0, 2'001),
                              {2'001, count - 3},
                              {count - 3, count}})
      rule.apply(
          {parts.slice(0, begin, end), gradient.slice(0, begin, end)}, {}, {},
          end > last ? std::vector<ElementRange>{{std::max(last, begin) - begin,
                                                  end - begin}}
                     : std::vector<ElementRange>());
    EXPECT_TRUE(at::equal(parts, whole));
  }
}
