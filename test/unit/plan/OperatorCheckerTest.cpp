// Tests that calls are held against schemas: of an operator whose results are
// its only effects, with arguments of its types. Schemas here are made up.
#include "plan/check/OperatorChecker.h"
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>
#include <map>

using namespace fsdp::plan;
using namespace fsdp::test;
using Kind = SchemaKind;

namespace {

SchemaValue of(const char *name, SchemaType type, bool hasDefault = false) {
  return {name, type, {}, false, hasDefault};
}
SchemaValue sharing(SchemaValue value, bool isWritten = false) {
  value.sets = {"a"};
  value.isWritten = isWritten;
  return value;
}

const SchemaType tensor{Kind::Tensor, false, false, false},
    integers_{Kind::Int, true, false, false},
    tensors{Kind::Tensor, true, false, false};

const OperatorSchema unary{{of("self", tensor)}, {of("", tensor)}};
const OperatorSchema view{{sharing(of("self", tensor))},
                          {sharing(of("", tensor))}};

const std::map<std::string, OperatorSchema> &schemas() {
  SchemaType optionalDType{Kind::DType, false, true, false};
  SchemaType scalar{Kind::Scalar, false, false, false};
  SchemaType integer{Kind::Int, false, false, false};
  OperatorSchema binary{{of("self", tensor), of("other", tensor)},
                        {of("", tensor)}};
  OperatorSchema add = binary, withScalar = binary, slice = view;
  add.arguments.push_back(of("alpha", scalar, true));
  withScalar.arguments[1].type = scalar;
  for (const char *name : {"dim", "start", "end", "step"})
    slice.arguments.push_back(of(name, integer, true));
  static const std::map<std::string, OperatorSchema> all = {
      {"aten::add.Tensor", add},
      {"aten::sub.Tensor", add},
      {"aten::mul.Tensor", binary},
      {"aten::mul.Scalar", withScalar},
      {"aten::div.Scalar", withScalar},
      {"aten::mm", binary},
      {"aten::t", view},
      {"aten::slice.Tensor", slice},
      {"aten::constant_pad_nd",
       {{of("self", tensor), of("pad", integers_), of("value", scalar, true)},
        {of("", tensor)}}},
      {"aten::mean",
       {{of("self", tensor), of("dtype", optionalDType, true)},
        {of("", tensor)}}},
      {"aten::neg", unary},
      {"aten::neg_",
       {{sharing(of("self", tensor), true)}, {sharing(of("", tensor), true)}}},
      {"aten::rand_like", unary},
      {"aten::bernoulli",
       {{of("self", tensor),
         of("generator", {Kind::Generator, false, true, false}, true)},
        {of("", tensor)}}},
      {"aten::_scaled_dot_product_attention_math",
       {{of("query", tensor),
         of("dropout_p", {Kind::Float, false, false, false}, true)},
        {of("", tensor)}}},
      {"aten::mkldnn_rnn_layer", unary},
      {"aten::_softmax_backward_data",
       {{of("grad_output", tensor), of("output", tensor)}, {of("", tensor)}}},
      {"aten::native_layer_norm_backward",
       {{of("input", tensor), of("grad_out", tensor),
         of("normalized_shape", integers_), of("mean", tensor),
         of("rstd", tensor)},
        {of("", tensor)}}},
      {"aten::item", {{of("self", tensor)}, {of("", scalar)}}},
      {"aten::manual_seed",
       {{of("self", tensor)}, {of("", {Kind::Other, false, false, false})}}},
      {"aten::set",
       {{of("self", tensor), of("source", {Kind::Other, false, false, false})},
        {of("", tensor)}}},
      {"aten::from_file", unary},
      {"aten::native_batch_norm", unary},
      {"quantized::relu", unary},
      {"aten::cat", {{of("tensors", tensors)}, {of("", tensor)}}},
      {"aten::clone",
       {{of("self", tensor),
         of("memory_format", {Kind::MemoryFormat, false, true, false}, true)},
        {of("", tensor)}}},
      {"aten::zeros_like",
       {{of("self", tensor), of("dtype", optionalDType, true),
         of("layout", {Kind::Layout, false, true, false}, true)},
        {of("", tensor)}}},
      {"aten::mse_loss",
       {{of("self", tensor), of("target", tensor),
         of("reduction", integer, true)},
        {of("", tensor)}}},
      {"fsdp_mlir::flash_attention_backward",
       {{of("grad_out", tensor), of("query", tensor), of("key", tensor),
         of("value", tensor), of("out", tensor), of("logsumexp", tensor),
         of("state", tensor),
         of("dropout_p", {Kind::Float, false, false, false})},
        {of("", tensor), of("", tensor), of("", tensor)}}},
  };
  return all;
}

std::string checkCalls(const PlanT &plan) {
  try {
    checkPlan(plan);
    checkOperators(plan, [](const std::string &name, const std::string &over) {
      auto it = schemas().find(name + (over.empty() ? "" : "." + over));
      return it == schemas().end() ? std::nullopt : std::optional(it->second);
    });
    return "";
  } catch (const PlanError &error) {
    return error.what();
  }
}

/// A plan whose step makes `y` of `x`, both float32 of [4].
class OneCall : public fsdp::test::PlanBuilder {
public:
  OneCall() : fsdp::test::PlanBuilder(1) {
    program("step");
    x = newValue("x", {4});
    input("x", x, true);
    y = newValue("y", {4});
    int loss = newValue("loss", {});
    call = &aten("aten::neg", {value(x)}, {y});
    aten("aten::mean", {value(y)}, {loss});
    output("loss", loss);
  }

  /// Another operator, with `more` behind its first argument.
  void become(const std::string &name, Arguments more = {}) {
    size_t dot = name.find('.');
    call->name = name.substr(0, dot);
    call->overload = dot == std::string::npos ? "" : name.substr(dot + 1);
    call->arguments.resize(1);
    for (ArgumentT &argument : more)
      call->arguments.push_back(std::make_unique<ArgumentT>(argument));
  }

  /// Multiplies by the number that the value `n`, a new input, holds.
  void giveNumber(int n) {
    input("n", n, true);
    become("aten::mul.Scalar", {value(n)});
  }

  int x, y;
  AtenT *call;
};

ArgumentT dtype(int64_t i) {
  ArgumentT a;
  a.kind = ArgumentKind::DType;
  a.i = i;
  return a;
}
ArgumentT text(const char *s) {
  ArgumentT a;
  a.kind = ArgumentKind::String;
  a.s = s;
  return a;
}

/// The backward of attention on GPUs with dropout, which drew from `state`.
void becomeAttentionBackward(OneCall &p, const std::vector<int64_t> &state) {
  auto given = [&](const char *name, std::vector<int64_t> shape, DType dtype) {
    int v = p.newValue(name, shape, dtype);
    p.input(name, v, true);
    return value(v);
  };
  Arguments more;
  for (const char *name : {"query", "key", "value", "out"})
    more.push_back(given(name, {1, 2, 3, 4}, DType::Float16));
  more.push_back(given("logsumexp", {1, 2, 3}, DType::Float32));
  more.push_back(given("state", state, DType::Int64));
  more.push_back(number(0.5));
  p.become("fsdp_mlir::flash_attention_backward", more);
  *p.call->arguments[0] = given("grad_out", {1, 2, 3, 4}, DType::Float16);
  p.call->results.resize(3, -1);
}

} // namespace

TEST(OperatorChecker, PassesValidPlans) {
  for (unsigned ranks : {1, 2})
    EXPECT_EQ(checkCalls(linearRegression(ranks, 3, 4, 5)->finish()), "");
  OneCall plan;
  EXPECT_EQ(checkCalls(plan.finish()), "");
  plan.become("aten::clone", {integer(3)});
  EXPECT_EQ(checkCalls(plan.finish()), "");
  plan.become("aten::zeros_like", {dtype(8), integer(0)});
  EXPECT_EQ(checkCalls(plan.finish()), "");
  plan.become("aten::bernoulli", {site(1)});
  EXPECT_EQ(checkCalls(plan.finish()), "");
  plan.become("aten::_softmax_backward_data", {value(plan.x)});
  EXPECT_EQ(checkCalls(plan.finish()), "");
  plan.become("aten::mse_loss", {value(plan.x), integer(2)});
  EXPECT_EQ(checkCalls(plan.finish()), "");
  becomeAttentionBackward(plan, {2});
  EXPECT_EQ(checkCalls(plan.finish()), "");
}

TEST(OperatorChecker, PassesANumberThatATensorHolds) {
  OneCall plan;
  plan.giveNumber(plan.newValue("n", {}, DType::Float64));
  EXPECT_EQ(checkCalls(plan.finish()), "");
}

namespace {
struct BrokenCall : ::testing::TestWithParam<Break<OneCall>> {};
} // namespace

TEST_P(BrokenCall, IsRefused) {
  OneCall plan;
  GetParam().apply(plan);
  std::string said = checkCalls(plan.finish());
  std::string number = "C" + std::to_string(GetParam().constraint) + ": ";
  EXPECT_EQ(said.find(number), 0u) << said;
  EXPECT_NE(said.find(GetParam().message), std::string::npos) << said;
}

static const Break<OneCall> breaks[] = {
    {"NoOperator", C30, [](OneCall &p) { p.become("aten::nothing"); },
     "calls aten::nothing, which is no operator of this PyTorch"},
    {"AnotherNamespace", C30, [](OneCall &p) { p.become("quantized::relu"); },
     "which is none of PyTorch's aten operators"},
    {"WritesAnArgument", C30,
     [](OneCall &p) {
       p.become("aten::neg_");
       p.call->results = {-1};
       // The value is another command's.
       p.aten("aten::neg", {value(p.x)}, {p.y});
       auto &commands = p.plan.programs[0]->commands;
       std::swap(commands[1], commands[2]);
     },
     "which writes its argument 'self'"},
    {"GivesANumber", C30, [](OneCall &p) { p.become("aten::item"); },
     "which gives a Scalar"},
    {"GivesAnObject", C30, [](OneCall &p) { p.become("aten::manual_seed"); },
     "which gives a <unsupported>"},
    {"TakesAnObject", C30, [](OneCall &p) { p.become("aten::set"); },
     "which takes for 'source' what a plan cannot hold"},
    {"Files", C30, [](OneCall &p) { p.become("aten::from_file"); },
     "which reads and makes files"},
    {"QuietWrites", C30,
     [](OneCall &p) { p.become("aten::native_batch_norm"); },
     "which writes running statistics"},
    {"RandomNumbersInSecret", C30,
     [](OneCall &p) { p.become("aten::rand_like"); },
     "which draws random numbers that are no site's"},
    {"LeavesItsOperands", C30,
     [](OneCall &p) { p.become("aten::mkldnn_rnn_layer"); },
     "which may leave its operands' memory; let the step compute it by other "
     "operators"},
    {"GeneratorWithoutASite", C31,
     [](OneCall &p) { p.become("aten::bernoulli"); },
     "argument 'generator' of type Generator? is given nothing"},
    {"DropoutWithoutASite", C31,
     [](OneCall &p) {
       p.become("aten::_scaled_dot_product_attention_math", {number(0.1)});
     },
     "argument 'dropout_p' is not zero, and its random numbers are no site's"},
    {"GradientOfAnotherShape", C36,
     [](OneCall &p) {
       int other = p.newValue("other", {3});
       p.input("other", other, true);
       p.become("aten::_softmax_backward_data", {value(other)});
     },
     "operands that do not fit each other: grad_output [4], output [3]"},
    {"MeansOfOtherRows", C36,
     [](OneCall &p) {
       int mean = p.newValue("mean", {});
       p.input("mean", mean, true);
       p.become("aten::native_layer_norm_backward",
                {value(p.x), integers({2}), value(mean), value(mean)});
     },
     "operands that do not fit each other: input [4], grad_out [4], mean []"},
    {"DropoutThatDrewFromLess", C36,
     [](OneCall &p) { becomeAttentionBackward(p, {1}); },
     "logsumexp [1, 2, 3], state [1]"},
    {"RuleThatTrustsShapes", C36,
     [](OneCall &p) {
       RuleT &rule = *p.plan.rules[addSgdRule(p)];
       rule.calls[0]->name = "aten::_softmax_backward_data";
       rule.calls[0]->overload = "";
       rule.calls[0]->arguments.resize(2);
     },
     "which takes its operands' shapes for granted"},
    {"TooManyArguments", C31,
     [](OneCall &p) { p.become("aten::neg", {value(p.x)}); },
     "has 2 arguments, its schema has 1"},
    {"TooFewArguments", C31, [](OneCall &p) { p.become("aten::mm"); },
     "argument 'other' of type Tensor is given nothing"},
    {"TooManyResults", C31, [](OneCall &p) { p.call->results.push_back(-1); },
     "has 2 results, its schema has 1"},
    {"NumberForATensor", C31,
     [](OneCall &p) { p.become("aten::mm", {integer(1)}); },
     "argument 'other' of type Tensor is given 1"},
    {"TensorForAList", C31, [](OneCall &p) { p.become("aten::cat"); },
     "argument 'tensors' of type Tensor[] is given a Value"},
    {"AbsentMember", C31,
     [](OneCall &p) {
       p.become("aten::cat");
       *p.call->arguments[0] = values({p.x, -1});
     },
     "argument 'tensors' of type Tensor[] is given a ValueList"},
    {"UnknownDType", C31,
     [](OneCall &p) { p.become("aten::zeros_like", {integer(1000)}); },
     "argument 'dtype' of type ScalarType? is given 1000"},
    {"UnknownLayout", C31,
     [](OneCall &p) {
       p.become("aten::zeros_like", {byDefault(), integer(1)});
     },
     "argument 'layout' of type Layout? is given 1"},
    {"UnknownMemoryFormat", C31,
     [](OneCall &p) { p.become("aten::clone", {integer(4)}); },
     "argument 'memory_format' of type MemoryFormat? is given 4"},
    {"UnknownReduction", C31,
     [](OneCall &p) {
       p.become("aten::mse_loss", {value(p.x), integer(3)});
     },
     "argument 'reduction' of type int is given 3"},
    {"TextForANumber", C31,
     [](OneCall &p) { p.become("aten::mul.Scalar", {text("2")}); },
     "argument 'other' of type Scalar is given a String"},
    {"NumberOfATensorOfFloat32", C31,
     [](OneCall &p) { p.giveNumber(p.newValue("n", {})); },
     "takes a number from value 3, which is not one of float64"},
    {"NumberOfSeveral", C31,
     [](OneCall &p) { p.giveNumber(p.newValue("n", {2}, DType::Float64)); },
     "takes a number from value 3, which is not one of float64"},
    {"RuleWithANumberOfATensor", C31,
     [](OneCall &p) {
       RuleT &rule = *p.plan.rules[addSgdRule(p)];
       rule.calls[0]->name = "aten::mul";
       rule.calls[0]->overload = "Scalar";
       rule.calls[0]->arguments.resize(2);
     },
     "takes a number from a tensor, of which a rule has some elements"},
    {"ViewOfWhatIsNoView", C3,
     [](OneCall &p) {
       int view = p.viewValue("view", p.x, {4}, {1});
       p.aten("aten::neg", {value(p.x)}, {view}, /*view=*/true);
     },
     "is not a view of what the operator looks into"},
    {"RuleThatWrites", C30,
     [](OneCall &p) {
       RuleT &rule = *p.plan.rules[addSgdRule(p)];
       auto call = std::make_unique<AtenT>();
       call->name = "aten::neg_";
       call->arguments.push_back(std::make_unique<ArgumentT>(value(0)));
       rule.calls.push_back(std::move(call));
     },
     "rule 'sgd.0': aten::neg_: calls aten::neg_, which writes its argument"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenCall, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
