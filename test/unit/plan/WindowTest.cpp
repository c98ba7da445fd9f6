// Tests the rule of mapped gathers: a rank writes its state only after a
// collective that follows, on every rank, the last read of the window.
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// Two ranks; each reads both pieces of a state in its window, and updates its
/// own piece.
class MappedStep : public fsdp::test::PlanBuilder {
public:
  // The commands of the step, in order.
  enum {
    Gather,        // of the state, into the window
    Gathered,      // record, gather stream
    AwaitGathered, // wait, compute stream
    Read,          // of the window
    WasRead,       // record, compute stream
    AwaitRead,     // wait, reduce stream
    Reduce,        // of the gradient
    Reduced,       // record, reduce stream
    AwaitReduced,  // wait, compute stream
    Update         // of the state
  };

  MappedStep() : fsdp::test::PlanBuilder(2) {
    unsigned rule = addSgdRule(*this);
    w = state("w", Role::Parameter, {2 * piece}, /*sharded=*/true);
    plan.states[w]->is_flat = true;
    addMember();
    program("step");
    ProgramT &step = *plan.programs.back();
    int gradients = newValue("gradients", {2 * piece});
    input("gradients", gradients, false);
    int own = stateValue(w), sum = newValue("sum", {});
    gathered = windowValue({2 * piece}, 0);
    int gradient = newValue("gradient", {piece});
    collective(CollectiveKind::AllGather, own, gathered, piece,
               ProgramRegion::Forward);
    on(gatherStream).operation.AsCollective()->mapped = true;
    record(0, gatherStream);
    wait(0, computeStream);
    aten("aten::sum", {value(gathered)}, {sum});
    record(1, computeStream);
    wait(1, reduceStream);
    collective(CollectiveKind::ReduceScatter, gradients, gradient, piece);
    CollectiveT &reduction = *on(reduceStream).operation.AsCollective();
    reduction.channel = reduceChannel;
    record(2, reduceStream);
    wait(2, computeStream);
    update(rule, w, gradient);
    output("loss", sum);
    step.events = 3;
  }

  /// What the flat state holds.
  void addMember() {
    auto member = std::make_unique<StateT>(*plan.states[w]);
    member->fqn = "w.member";
    member->local_shape = member->shape;
    member->shard_dim = -1;
    member->is_flat = false;
    member->flat = w;
    plan.states.push_back(std::move(member));
  }

  /// A value in the window, `offset` bytes into it.
  int windowValue(Shape shape, uint64_t offset) {
    int v = newValue("gathered", shape);
    ValueT &gathered = *plan.programs.back()->values[v];
    uint64_t bytes = gathered.place->bytes();
    plan.arenas[deviceArena]->bytes -= bytes;
    plan.arenas[windowArena]->bytes =
        std::max(plan.arenas[windowArena]->bytes, offset + bytes);
    *gathered.place = Place(windowArena, offset, bytes);
    return v;
  }

  /// Moves a command of the step in front of another; to the end with `end`.
  void move(size_t from, size_t to) {
    auto &commands = plan.programs[0]->commands;
    if (from < to)
      std::rotate(commands.begin() + from, commands.begin() + from + 1,
                  commands.begin() + to);
    else
      std::rotate(commands.begin() + to, commands.begin() + from,
                  commands.begin() + from + 1);
  }
  /// Two replicas of the two ranks; the reduction is over `dim` of the mesh.
  void replicate(uint32_t dim) {
    auto replicas = std::make_unique<MeshDimT>();
    replicas->name = "replicate";
    replicas->size = 2;
    replicas->role = AxisRole::Replicate;
    plan.mesh.insert(plan.mesh.begin(), std::move(replicas));
    plan.gradient_divisor = 4;
    at(Gather).operation.AsCollective()->mesh_dim = 1;
    at(Reduce).operation.AsCollective()->mesh_dim = dim;
    at(Reduce).operation.AsCollective()->divisor = 1;
  }
  void drop(size_t command) {
    auto &commands = plan.programs[0]->commands;
    commands.erase(commands.begin() + command);
  }
  CommandT &at(size_t command) { return *plan.programs[0]->commands[command]; }

  static constexpr size_t end = Update + 1;
  static constexpr int64_t piece = 1024; // elements, a page
  unsigned w;
  int gathered;

private:
  CommandT &on(uint32_t stream) {
    CommandT &last = *plan.programs.back()->commands.back();
    last.stream = stream;
    return last;
  }
  void record(uint32_t event, uint32_t stream) {
    RecordT operation;
    operation.event = event;
    add(stream).operation.Set(std::move(operation));
  }
  void wait(uint32_t event, uint32_t stream) {
    WaitT operation;
    operation.event = event;
    add(stream).operation.Set(std::move(operation));
  }
  CommandT &add(uint32_t stream) {
    auto &commands = plan.programs.back()->commands;
    commands.push_back(std::make_unique<CommandT>());
    return on(stream);
  }
};

/// Two ranks read both pieces of a flat buffer in its window; then each writes
/// its own piece, without an update.
class MappedBuffer : public MappedStep {
public:
  enum class Write { Operator, Copy };

  /// `isAwaited`: the reduction before the write follows the read.
  MappedBuffer(Write write, bool isAwaited) {
    for (auto &state : plan.states) {
      state->role = Role::Buffer;
      state->trainable = false;
    }
    plan.programs[0]->commands.pop_back(); // the update
    int own = at(Gather).operation.AsCollective()->source;
    int sum = at(Reduce).operation.AsCollective()->destination;
    if (write == Write::Operator)
      aten("aten::neg", {value(sum)}, {own});
    else
      copy(sum, own, piece * sizeof(float));
    if (!isAwaited) {
      drop(AwaitRead);
      drop(WasRead);
    }
  }
};

} // namespace

TEST(Window, OfABufferIsReadBeforeTheCollectiveThatAWriteAwaits) {
  using Write = MappedBuffer::Write;
  for (Write write : {Write::Operator, Write::Copy})
    EXPECT_EQ(check(MappedBuffer(write, true).finish()), "");
}

TEST(Window, OfABufferAsksForACollectiveBeforeWritesOfEveryKind) {
  using Write = MappedBuffer::Write;
  for (Write write : {Write::Operator, Write::Copy}) {
    std::string said = check(MappedBuffer(write, false).finish());
    EXPECT_EQ(said.find("C12: "), 0u) << said;
    EXPECT_NE(said.find("no collective in between that tells it of all ranks"),
              std::string::npos)
        << said;
  }
}

TEST(Window, IsReadBeforeTheCollectiveThatTheUpdateAwaits) {
  EXPECT_EQ(check(MappedStep().finish()), "");
}

TEST(Window, ShowsOneShardGroup) {
  MappedStep step;
  step.replicate(1);
  EXPECT_EQ(check(step.finish()), "");
}

namespace {
struct BrokenWindow : ::testing::TestWithParam<Break<MappedStep>> {};
} // namespace

TEST_P(BrokenWindow, IsRefused) {
  MappedStep step;
  GetParam().apply(step);
  GetParam().expectRefused(step.finish());
}

static const Break<MappedStep> breaks[] = {
    // This rank has read, but another may be late.
    {"ReadAfterTheReduction", C12,
     [](MappedStep &s) { s.move(s.Read, s.Update); },
     "reads, with no collective in between that tells it of all ranks"},
    // The reduction may start on another rank before that has read.
    {"ReductionDoesNotAwaitTheRead", C12,
     [](MappedStep &s) {
       s.drop(s.AwaitRead);
       s.drop(s.WasRead);
     },
     "reads, with no collective in between that tells it of all ranks"},
    {"SumOverReplicas", C12,
     [](MappedStep &s) {
       s.replicate(0);
       CollectiveT &sum = *s.at(s.Reduce).operation.AsCollective();
       sum.kind = CollectiveKind::AllReduce;
       sum.divisor = 4;
       ValueT &part = *s.plan.programs[0]->values[sum.destination];
       sum.source = s.newValue("part", part.shape);
       s.input("part", sum.source, false);
     },
     "reads, with no collective in between that tells it of all ranks"},
    {"ReadAfterTheUpdate", C5, [](MappedStep &s) { s.move(s.Read, s.end); },
     "after state 'w' was written over it"},
    {"GatherAfterTheUpdate", C12,
     [](MappedStep &s) {
       // Another rank may be in the program before, and read there.
       s.drop(s.AwaitReduced);
       s.drop(s.Reduced);
       s.drop(s.Reduce);
       s.drop(s.AwaitRead);
       s.drop(s.WasRead);
       auto &commands = s.plan.programs[0]->commands;
       auto *update = commands.back()->operation.AsUpdate();
       int gradient = s.newValue("given", {s.piece});
       s.input("given", gradient, false);
       update->gradient = gradient;
       s.move(commands.size() - 1, 0);
     },
     "where the program before reads, with no collective in between"},
    {"TwoRanges", C12,
     [](MappedStep &s) {
       int other = s.windowValue({2 * s.piece}, 8 * s.piece);
       auto &commands = s.plan.programs[0]->commands;
       commands.push_back(std::make_unique<CommandT>(s.at(s.Gather)));
       commands.back()->operation.AsCollective()->destination = other;
     },
     "shows 'w' in another range of the window than before"},
    {"NotFlat", C12,
     [](MappedStep &s) {
       s.plan.states[s.w]->is_flat = false;
       s.plan.states.pop_back(); // its member
     },
     "does not gather a flat state into the window"},
    {"NotMapped", C12,
     [](MappedStep &s) {
       s.at(s.Gather).operation.AsCollective()->mapped = false;
     },
     "which is in the window"},
    {"NotInTheWindow", C12,
     [](MappedStep &s) {
       auto &values = s.plan.programs[0]->values;
       int elsewhere = s.newValue("elsewhere", {2 * s.piece});
       *values[s.gathered]->place = *values[elsewhere]->place;
     },
     "does not gather a flat state into the window"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenWindow, ::testing::ValuesIn(breaks),
                         [](const auto &info) { return info.param.name; });
