// Tests what an update of whole matrices may ask of a plan: that a state of
// another shape than its parameter's becomes what the update is given (C25), and
// that several ranks are sent the same parameter (C28).
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// A matrix `w` whose state `w/row_var` has a number for each row. The update is
/// given the state's new value, which the rule neither reads nor computes.
class MatrixStep : public fsdp::test::PlanBuilder {
public:
  MatrixStep() : fsdp::test::PlanBuilder(1) {
    w = state("w", Role::Parameter, {2, 4});
    rows = state("w/row_var", Role::Optimizer, {2, 1});
    plan.states[rows]->parameter = static_cast<int>(w);
    addSgdRule(*this);
    // The parameter, its gradient, the state and what the state becomes.
    rule().operands = 4;
    rule().dtypes.assign(5, DType::Float32);
    rule().calls[0]->results = {4};
    rule().results = {4, 3};
    program("step");
    gradient = newValue("gradient", {2, 4});
    input("gradient", gradient, true);
    given = newValue("given", {2, 1});
    aten("aten::sum.dim_IntList", {value(gradient)}, {given});
    loss = newValue("loss", {});
    aten("aten::sum", {value(gradient)}, {loss});
    output("loss", loss);
    PlanBuilder::update(0, w, gradient, {rows});
    update().given = {given};
  }

  RuleT &rule() { return *plan.rules[0]; }
  UpdateT &update() {
    return *plan.programs[0]->commands.back()->operation.AsUpdate();
  }

  unsigned w, rows;
  int gradient, given, loss;
};

struct BrokenMatrix : ::testing::TestWithParam<Break<MatrixStep>> {};

} // namespace

TEST(MatrixUpdate, AStateOfAnotherShapeBecomesWhatIsGiven) {
  MatrixStep step;
  EXPECT_EQ(check(step.finish()), "");
}

TEST_P(BrokenMatrix, IsRefused) {
  MatrixStep step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<MatrixStep> breaks[] = {
    {"StateIsComputedByTheRule", C25,
     [](MatrixStep &s) {
       s.rule().results = {4, 4};
     },
     "what is given of 'w' has not its shape"},
    {"StateIsReadByTheRule", C25,
     [](MatrixStep &s) { s.rule().calls[0]->arguments[1]->value = 2; },
     "what is given of 'w' has not its shape"},
    {"GivenIsReadByTheRule", C25,
     [](MatrixStep &s) { s.rule().calls[0]->arguments[1]->value = 3; },
     "what is given of 'w' has not its shape"},
    {"GivenIsOfNeitherShape", C25,
     [](MatrixStep &s) { s.update().given = {s.loss}; },
     "what is given of 'w' has not its shape"},
    {"StateIsOfNeitherShape", C25,
     [](MatrixStep &s) {
       // The same bytes, but no longer what the update is given.
       StateT &rows = *s.plan.states[s.rows];
       rows.shape = rows.local_shape = {1, 2};
       rows.strides = {2, 1};
     },
     "what is given of 'w' has not its shape"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenMatrix, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });

/// What is wrong where the second of two ranks is sent `bytes` of a parameter
/// of 32 bytes, and the first all.
static std::string checkSending(uint64_t bytes) {
  fsdp::test::PlanBuilder step(1);
  unsigned w = step.state("w", Role::Parameter, {2, 4});
  step.program("step");
  int bucket = step.newValue("bucket", {4, 4}), loss = step.newValue("loss", {});
  int source = step.stateValue(w);
  step.copy(source, bucket, 32);
  auto second = std::make_unique<PieceT>();
  second->source = source;
  second->destination = bucket;
  second->destination_offset = 32;
  second->block_bytes = bytes;
  auto rest = std::make_unique<PieceT>();
  rest->destination = bucket;
  rest->destination_offset = 32 + bytes;
  rest->block_bytes = 32 - bytes;
  CopyT &copy = *step.plan.programs[0]->commands.back()->operation.AsCopy();
  copy.pieces.push_back(std::move(second));
  if (rest->block_bytes)
    copy.pieces.push_back(std::move(rest));
  step.aten("aten::sum", {value(bucket)}, {loss});
  step.output("loss", loss);
  unsigned rule = addSgdRule(step);
  int gradient = step.newValue("gradient", {2, 4});
  step.input("gradient", gradient, true);
  step.update(rule, w, gradient);
  return check(step.finish());
}

TEST(MatrixUpdate, SeveralRanksAreSentAllOfAParameterOrNothing) {
  EXPECT_EQ(checkSending(32), "");
  EXPECT_NE(checkSending(16).find("C28: program 'step': command 0 (model): "
                                  "copy: copies some bytes of value 2 (w)"),
            std::string::npos)
      << checkSending(16);
}
