// Tests the rules of parameters that are updated where their optimizer state is
// and not where they are: in a copy, which is made of them and comes back.
#include "BrokenPlans.h"
#include "HostPlans.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// The parameter is on the host, its optimizer state on the device, where the
/// update runs. A second parameter is as large, and read only.
class StagedStep : public HostPlanBuilder {
public:
  // The commands of the step, in order.
  enum {
    Compute,      // the gradient
    Stage,        // the parameter, fetch stream
    Staged,       // record, fetch stream
    AwaitStaged,  // wait, compute stream
    Update,       // of the copy
    Updated,      // record, compute stream
    AwaitUpdated, // wait, offload stream
    Return,       // the parameter, offload stream
    Loss
  };

  StagedStep() {
    unsigned rule = addMomentumRule();
    w = state("w", Role::Parameter, {elements});
    moveToHost(*plan.states[w]->place);
    other = state("other", Role::Parameter, {elements});
    moveToHost(*plan.states[other]->place);
    momentum = state("w/momentum", Role::Optimizer, {elements});
    plan.states[momentum]->parameter = w;
    program("step");
    x = newValue("x", {elements});
    input("x", x, true);
    own = stateValue(w);
    otherOwn = stateValue(other);
    gradient = newValue("gradient", {elements});
    staged = newValue("staged", {elements});
    aten("aten::neg", {value(x)}, {gradient});
    copyOn(fetchStream, own, staged);
    record(0, fetchStream);
    wait(0, computeStream);
    update(rule, w, gradient, {momentum});
    as<UpdateT>(Update).staged = staged;
    record(1, computeStream);
    wait(1, offloadStream);
    copyOn(offloadStream, staged, own);
    int loss = newValue("loss", {});
    aten("aten::sum", {value(x)}, {loss});
    output("loss", loss);
    plan.programs.back()->events = 2;
  }

  unsigned w, other, momentum;
  int x, own, otherOwn, gradient, staged;

private:
  /// That of SGD, with a state that stays as it is.
  unsigned addMomentumRule() {
    unsigned index = addSgdRule(*this);
    RuleT &rule = *plan.rules[index];
    rule.operands = 3;
    rule.dtypes.push_back(DType::Float32);
    rule.calls[0]->results = {3};
    rule.results = {3, 2};
    return index;
  }
};

struct BrokenStaging : ::testing::TestWithParam<Break<StagedStep>> {};

} // namespace

TEST(Staging, IsCopiedInUpdatedAndCopiedBack) {
  StagedStep step;
  EXPECT_EQ(check(step.finish()), "");
}

TEST_P(BrokenStaging, IsRefused) {
  StagedStep step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<StagedStep> breaks[] = {
    {"UpdateDoesNotAwaitTheCopy", C9,
     [](StagedStep &s) { s.drop(s.AwaitStaged); },
     "writes, without waiting for it"},
    {"CopyBackDoesNotAwaitTheUpdate", C9,
     [](StagedStep &s) { s.drop(s.AwaitUpdated); },
     "writes, without waiting for it"},
    {"NoCopyBack", C18, [](StagedStep &s) { s.drop(s.Return); },
     "'w': is not copied back after its update"},
    {"CopyBackBeforeTheUpdate", C18,
     [](StagedStep &s) {
       s.at(s.Return).stream = computeStream;
       std::swap(s.at(s.Update), s.at(s.Return));
     },
     "copies a staged parameter again, or not in the order"},
    {"UpdatesWhatNobodyCopied", C5, [](StagedStep &s) { s.drop(s.Stage); },
     "before it is written"},
    {"UpdatesACopyOfAnother", C18,
     [](StagedStep &s) { s.as<CopyT>(s.Stage).pieces[0]->source = s.otherOwn; },
     "copies between a staged parameter and something else"},
    {"CopiesBackToAnother", C18,
     [](StagedStep &s) {
       s.as<CopyT>(s.Return).pieces[0]->destination = s.otherOwn;
     },
     "copies between a staged parameter and something else"},
    {"CopiesBackAPart", C18,
     [](StagedStep &s) { s.as<CopyT>(s.Return).pieces[0]->block_bytes = 32; },
     "copies a part of a staged parameter"},
    {"CopiesSomethingElseToTheParameter", C18,
     [](StagedStep &s) {
       s.as<CopyT>(s.Return).pieces[0]->source = s.gradient;
     },
     "which only updates may write"},
    {"UpdatesTheParameterOnTheOtherSide", C15,
     [](StagedStep &s) { s.as<UpdateT>(s.Update).staged = -1; },
     "uses memory of the device and of the host"},
    {"LossReadsTheCopy", C18,
     [](StagedStep &s) { s.as<AtenT>(s.Loss).arguments[0]->value = s.staged; },
     "uses a staged parameter for something else"},
    {"ChangesTheGradientInstead", C4,
     [](StagedStep &s) { s.as<UpdateT>(s.Update).staged = s.gradient; },
     "shares bytes with what the command also uses"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenStaging, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
