// Tests the rules of what some ranks alone compute (C37): nobody else reads it,
// and what is copied together of it has the same bytes on every rank.
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Of three ranks the first negates and the others double; each writes what it
/// has into a bucket, with a gap that it fills with zero.
class SharedStep : public fsdp::test::PlanBuilder {
public:
  enum { Negate, Double, Look, Pack, Send, Sum }; // the commands, in order

  SharedStep() : fsdp::test::PlanBuilder(3) {
    unsigned buffer = state("buffer", Role::Buffer, {4});
    program("step");
    int x = newValue("x", {4});
    input("x", x, true);
    negative = newValue("negative", {4});
    doubled = newValue("doubled", {4});
    view = viewValue("view", doubled, {2, 2}, {2, 1});
    bucket = newValue("bucket", {6});
    int sent = newValue("sent", {6}), loss = newValue("loss", {});
    kept = stateValue(buffer);
    aten("aten::neg", {value(x)}, {negative});
    aten("aten::add.Tensor", {value(x), value(x), byDefault()}, {doubled});
    aten("aten::view", {value(doubled), integers({2, 2})}, {view}, true);
    copy(negative, bucket, 16);
    addPiece(doubled, 0, 16);
    addPiece(-1, 16, 8); // behind both
    collective(CollectiveKind::AllToAll, bucket, sent, 2);
    aten("aten::sum", {value(sent), byDefault()}, {loss});
    output("loss", loss);
    call(Negate).on = shards(0, 1);
    call(Double).on = shards(1, 3);
    piece(0).on = shards(0, 1);
    piece(1).on = shards(1, 3);
  }

  static std::unique_ptr<ShardRange> shards(uint32_t first, uint32_t end) {
    return std::make_unique<ShardRange>(first, end);
  }
  CommandT &at(size_t command) { return *plan.programs[0]->commands[command]; }
  AtenT &call(size_t command) { return *at(command).operation.AsAten(); }
  PieceT &piece(size_t i) { return *at(Pack).operation.AsCopy()->pieces[i]; }
  void alsoReads(size_t command, int v) {
    call(command).arguments.push_back(std::make_unique<ArgumentT>(value(v)));
  }
  void addPiece(int source, uint64_t offset, uint64_t bytes) {
    auto more = std::make_unique<PieceT>();
    more->source = source;
    more->destination = bucket;
    more->destination_offset = offset;
    more->block_bytes = bytes;
    at(Pack).operation.AsCopy()->pieces.push_back(std::move(more));
  }

  int negative, doubled, view, bucket, kept;
};

struct BrokenShare : ::testing::TestWithParam<Break<SharedStep>> {};

} // namespace

TEST(SomeRanks, EachWritesWhatItHas) {
  SharedStep step;
  EXPECT_EQ(check(step.finish()), "");
}

TEST_P(BrokenShare, IsRefused) {
  SharedStep step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<SharedStep> breaks[] = {
    {"NoRanks", C37,
     [](SharedStep &s) { s.call(s.Double).on = s.shards(1, 1); },
     "is for shards from 1 up to 1, there are 3"},
    {"OtherRanks", C37, [](SharedStep &s) { s.piece(1).on = s.shards(1, 4); },
     "is for shards from 1 up to 4, there are 3"},
    {"ReadByOthers", C37, [](SharedStep &s) { s.alsoReads(s.Sum, s.doubled); },
     "reads value 2 on shards 0 to 2, which is there on shards 1 to 2 alone"},
    {"ReadByOthersThroughAView", C37,
     [](SharedStep &s) { s.alsoReads(s.Sum, s.view); },
     "which is there on shards 1 to 2 alone"},
    {"CopiedByOthers", C37,
     [](SharedStep &s) { s.call(s.Double).on = s.shards(2, 3); },
     "which is there on shard 2 alone"},
    {"WrittenByFewer", C37,
     [](SharedStep &s) { s.piece(1).on = s.shards(2, 3); },
     "writes other bytes on shard 1 than on shard 0"},
    {"WrittenInPart", C37, [](SharedStep &s) { s.piece(1).block_bytes = 8; },
     "writes other bytes on shard 1 than on shard 0"},
    {"SentByAll", C37,
     [](SharedStep &s) {
       s.piece(0).on = nullptr;
       s.piece(1).on = nullptr;
     },
     "which is there on shard 0 alone"},
    {"View", C37, [](SharedStep &s) { s.call(s.Look).on = s.shards(1, 3); },
     "makes a view on some ranks alone"},
    {"State", C37,
     [](SharedStep &s) { s.call(s.Negate).results.push_back(s.kept); },
     "writes a state on some ranks alone"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenShare, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
