// Tests the rules of the host arena: what is there is copied in and out on
// streams of their own, and used by nothing on the device.
#include "BrokenPlans.h"
#include "HostPlans.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// One rank; the step reads a parameter that is on the host, and updates it
/// there.
class OffloadedStep : public HostPlanBuilder {
public:
  // The commands of the step, in order.
  enum {
    Fetch,        // of the parameter, fetch stream
    Fetched,      // record, fetch stream
    AwaitFetched, // wait, compute stream
    Compute,      // the gradient
    Computed,     // record, compute stream
    AwaitCompute, // wait, offload stream
    Offload,      // of the gradient, offload stream
    Offloaded,    // record, offload stream
    AwaitOffload, // wait, compute stream
    Update        // on the host
  };

  OffloadedStep() {
    unsigned rule = addSgdRule(*this);
    w = state("w", Role::Parameter, {elements});
    moveToHost(*plan.states[w]->place);
    program("step");
    ProgramT &step = *plan.programs.back();
    int own = stateValue(w);
    onHost = newValue("on host", {elements});
    moveToHost(*step.values[onHost]->place);
    fetched = newValue("fetched", {elements});
    gradient = newValue("gradient", {elements});
    copyOn(fetchStream, own, fetched);
    record(0, fetchStream);
    wait(0, computeStream);
    aten("aten::neg", {value(fetched)}, {gradient});
    record(1, computeStream);
    wait(1, offloadStream);
    copyOn(offloadStream, gradient, onHost);
    record(2, offloadStream);
    wait(2, computeStream);
    update(rule, w, onHost);
    int loss = newValue("loss", {});
    aten("aten::sum", {value(gradient)}, {loss});
    output("loss", loss);
    step.events = 3;
  }

  unsigned w;
  int onHost, fetched, gradient;
};

struct BrokenOffload : ::testing::TestWithParam<Break<OffloadedStep>> {};

} // namespace

TEST(Offload, IsCopiedInAndOutAndUpdatedOnTheHost) {
  OffloadedStep step;
  EXPECT_EQ(check(step.finish()), "");
  // The state and the gradient.
  EXPECT_EQ(step.plan.programs[0]->host_live_bytes, 2 * 64u);
}

TEST_P(BrokenOffload, IsRefused) {
  OffloadedStep step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<OffloadedStep> breaks[] = {
    {"FetchIsNotAwaited", C9, [](OffloadedStep &s) { s.drop(s.AwaitFetched); },
     "writes, without waiting for it"},
    {"OffloadIsNotAwaited", C9,
     [](OffloadedStep &s) { s.drop(s.AwaitOffload); },
     "writes, without waiting for it"},
    {"OffloadDoesNotAwaitTheGradient", C9,
     [](OffloadedStep &s) { s.drop(s.AwaitCompute); },
     "writes, without waiting for it"},
    {"OutOnTheStreamIn", C8,
     [](OffloadedStep &s) { s.at(s.Offload).stream = fetchStream; },
     "which is not for copies of its direction"},
    {"ComputesOnTheStreamOut", C8,
     [](OffloadedStep &s) { s.at(s.Compute).stream = offloadStream; },
     "computes on stream 5"},
    {"UpdatesByADevicesGradient", C15,
     [](OffloadedStep &s) {
       s.at(s.Update).operation.AsUpdate()->gradient = s.gradient;
     },
     "uses memory of the device and of the host"},
    {"ComputesWithBoth", C15,
     [](OffloadedStep &s) {
       AtenT &call = *s.at(s.Compute).operation.AsAten();
       call.results[0] = s.onHost;
     },
     "uses memory of the device and of the host"},
    {"SharesBytesOnTheHost", C4,
     [](OffloadedStep &s) {
       *s.plan.programs[0]->values[s.onHost]->place =
           *s.plan.states[s.w]->place;
     },
     "shares bytes with what the command also uses"},
    {"PinnedDevice", C20,
     [](OffloadedStep &s) { s.plan.arenas[deviceArena]->pinned = true; },
     "which only host memory can be"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenOffload, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
