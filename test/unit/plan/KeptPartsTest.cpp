// Tests the rules of what neighbours keep of a gathered whole: equal parts that
// cover it, which as many gather again.
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Four ranks gather a parameter; each keeps one of two parts of it, and pairs
/// of ranks gather these.
class KeptStep : public fsdp::test::PlanBuilder {
public:
  enum { Gather, Keep, GatherAgain }; // the commands of the step, in order

  KeptStep() : fsdp::test::PlanBuilder(4) {
    unsigned w = state("w", Role::Parameter, {64}, /*sharded=*/true);
    program("step");
    whole = newValue("whole", {64});
    kept = newValue("kept", {32});
    int again = newValue("again", {64}), loss = newValue("loss", {});
    collective(CollectiveKind::AllGather, stateValue(w), whole, 16,
               ProgramRegion::Forward);
    copy(whole, kept, 32 * sizeof(float));
    piece().owners = 2;
    collective(CollectiveKind::AllGather, kept, again, 32,
               ProgramRegion::Backward);
    at(GatherAgain).operation.AsCollective()->ranks = 2;
    aten("aten::sum", {value(again)}, {loss});
    output("loss", loss);
  }

  CommandT &at(size_t command) { return *plan.programs[0]->commands[command]; }
  PieceT &piece() { return *at(Keep).operation.AsCopy()->pieces[0]; }
  CollectiveT &gatherAgain() {
    return *at(GatherAgain).operation.AsCollective();
  }

  int whole, kept;
};

struct BrokenKeep : ::testing::TestWithParam<Break<KeptStep>> {};

} // namespace

TEST(KeptParts, AreGatheredAgain) {
  KeptStep step;
  EXPECT_EQ(check(step.finish()), "");
}

TEST(KeptParts, AreOfNeighbours) {
  KeptStep step;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    RankGroup pair = groupOf(step.plan, {0, 1}, rank, /*neighbours=*/2);
    EXPECT_EQ(pair[0], rank / 2 * 2);
    EXPECT_EQ(pair.indexOf(rank), rank % 2);
    EXPECT_EQ(pair.size, 2u);
  }
}

/// Copies the first half out of the whole, and in backward the half that begins
/// at `offset` out of what is gathered again.
static std::string checkCopyAgain(uint64_t offset) {
  fsdp::test::PlanBuilder step(4);
  unsigned w = step.state("w", Role::Parameter, {64}, /*sharded=*/true);
  step.program("step");
  int whole = step.newValue("whole", {64}), kept = step.newValue("kept", {32});
  int again = step.newValue("again", {64});
  int first = step.newValue("first", {32}), then = step.newValue("then", {32});
  int loss = step.newValue("loss", {});
  constexpr uint64_t half = 32 * sizeof(float);
  auto lastCopy = [&]() -> PieceT & {
    auto &commands = step.plan.programs[0]->commands;
    return *commands.back()->operation.AsCopy()->pieces[0];
  };
  step.collective(CollectiveKind::AllGather, step.stateValue(w), whole, 16,
                  ProgramRegion::Forward);
  step.copy(whole, kept, half);
  lastCopy().owners = 2;
  step.copy(whole, first, half);
  step.collective(CollectiveKind::AllGather, kept, again, 32,
                  ProgramRegion::Backward);
  step.plan.programs[0]->commands.back()->operation.AsCollective()->ranks = 2;
  step.copy(again, then, half);
  lastCopy().source_offset = offset;
  step.aten("aten::dot", {value(first), value(then)}, {loss});
  step.output("loss", loss);
  return check(step.finish());
}

TEST(KeptParts, AreCopiedOutAsTheWholeWas) {
  EXPECT_EQ(checkCopyAgain(0), "");
  EXPECT_NE(checkCopyAgain(32 * sizeof(float)).find("or other ones than when"),
            std::string::npos);
}

TEST_P(BrokenKeep, IsRefused) {
  KeptStep step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<KeptStep> breaks[] = {
    {"OwnersDoNotDivide", C17, [](KeptStep &s) { s.piece().owners = 3; },
     "has 3 owners, which do not divide the 4 shards"},
    {"NoOwners", C17, [](KeptStep &s) { s.piece().owners = 0; },
     "has 0 owners, which do not divide the 4 shards"},
    {"MoreOwnersThanParts", C17, [](KeptStep &s) { s.piece().owners = 4; },
     "which is not one of 4 equal parts of 256"},
    {"AnotherPart", C17, [](KeptStep &s) { s.piece().source_offset = 128; },
     "which is not one of 2 equal parts of 256"},
    {"PartOfAPart", C17,
     [](KeptStep &s) {
       s.piece().block_bytes = 64;
       s.piece().blocks = 2;
       s.piece().source_stride = s.piece().destination_stride = 64;
     },
     "which is not one of 2 equal parts of 256"},
    {"OfNothing", C17, [](KeptStep &s) { s.piece().source = -1; },
     "keeps a part of nothing"},
    {"OtherNeighbours", C17, [](KeptStep &s) { s.gatherAgain().ranks = 4; },
     "is among 4 neighbours; only a gather of what as many kept is"},
    {"GatheredByAll", C7, [](KeptStep &s) { s.gatherAgain().ranks = 0; },
     "its destination has 256 bytes, which is not what it receives"},
    {"NotKept", C17,
     [](KeptStep &s) { s.at(s.Gather).operation.AsCollective()->ranks = 4; },
     "is among 4 neighbours; only a gather of what as many kept is"},
    {"WrittenOver", C17,
     [](KeptStep &s) {
       ArgumentT argument = value(s.whole);
       AtenT call;
       call.name = "aten::neg";
       call.arguments.push_back(std::make_unique<ArgumentT>(argument));
       call.results = {s.kept};
       auto command = std::make_unique<CommandT>();
       command->operation.Set(std::move(call));
       auto &commands = s.plan.programs[0]->commands;
       commands.insert(commands.begin() + s.GatherAgain, std::move(command));
     },
     "is among 2 neighbours; only a gather of what as many kept is"},
    {"KeptTooLate", C17,
     [](KeptStep &s) {
       auto &commands = s.plan.programs[0]->commands;
       std::swap(commands[s.Keep], commands[s.GatherAgain]);
     },
     "is among 2 neighbours; only a gather of what as many kept is"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenKeep, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
