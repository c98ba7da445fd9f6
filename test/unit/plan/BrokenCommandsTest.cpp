// Tests that the checker refuses a plan with a broken command: calls, updates,
// collectives, copies, events and streams.
#include "PlanParts.h"

#include <limits>

using namespace fsdp::plan;
using namespace fsdp::test;

static std::unique_ptr<CommandT> copyOf(const PieceT &piece) {
  CopyT copy;
  copy.pieces.push_back(std::make_unique<PieceT>(piece));
  auto command = std::make_unique<CommandT>();
  command->operation.Set(copy);
  return command;
}

/// The step begins with a copy.
static void copyFirst(PlanT &plan, const PieceT &piece) {
  auto &commands = step(plan).commands;
  commands.insert(commands.begin(), copyOf(piece));
}

namespace {
struct BrokenCommand : BrokenPlan {};
} // namespace

TEST_P(BrokenCommand, IsRefused) { expectRefused(); }

static const Break<PlanT> breaks[] = {
    {"GivenToARuleThatTakesNone", C25,
     [](PlanT &p) {
       for (auto &command : step(p).commands)
         if (auto *update = command->operation.AsUpdate())
           update->given = {static_cast<int>(update->gradient)};
     },
     "rule 'sgd.0' takes 2 operands, given are 3"},
    {"GivenOfAnotherShape", C25,
     [](PlanT &p) {
       RuleT &rule = *p.rules[0];
       rule.operands = 3;
       rule.dtypes.push_back(DType::Float32);
       rule.calls[0]->results = rule.results = {3};
       for (auto &command : step(p).commands)
         if (auto *update = command->operation.AsUpdate())
           update->given = {valueNamed(p, "loss")};
     },
     "has not its shape, or another dtype than rule 'sgd.0' takes"},
    {"NoNamespace", C1, [](PlanT &p) { find(p, AS(Aten)).name = "slice"; },
     "operator 'slice' has no namespace"},
    {"ValueArgument", C1,
     [](PlanT &p) { find(p, AS(Aten)).arguments[0]->value = -4; },
     "value -4 does not exist"},
    {"MeasuredToTakeNoTime", C39,
     [](PlanT &p) { find(p, AS(Aten)).measured_seconds = 0; },
     "was measured to take 0 seconds"},
    {"CallOfARuleMeasuredForever", C39,
     [](PlanT &p) {
       p.rules[0]->calls[0]->measured_seconds =
           std::numeric_limits<double>::infinity();
     },
     "was measured to take inf seconds"},
    {"ScalarOfAGpu", C19, [](PlanT &p) { p.device = DeviceKind::Cuda; },
     "takes a number of the step, which a GPU has in memory alone"},
    {"ScalarOfAGpusState", C19,
     [](PlanT &p) {
       p.device = DeviceKind::Cuda;
       StateT &skipped = *p.states.emplace_back(new StateT(*p.states[0]));
       skipped.fqn = "skipped";
       skipped.role = Role::Buffer;
       skipped.trainable = false;
       skipped.shape = skipped.local_shape = skipped.strides = {};
       skipped.shard_dim = skipped.unit = -1;
       uint64_t &bytes = p.arenas[deviceArena]->bytes;
       skipped.place = std::make_unique<Place>(deviceArena, bytes, 4);
       bytes += placeAlignment;
       p.rules[0]->scalars[0]->kind = ScalarKind::State;
       p.rules[0]->scalars[0]->state = p.states.size() - 1;
     },
     "refers to scalar 0, which is known on the GPU alone"},
    {"ScalarArgument", C1,
     [](PlanT &p) {
       auto &argument = *find(p, AS(Aten)).arguments[1];
       argument.kind = ArgumentKind::Scalar;
       argument.value = 0;
     },
     "scalar 0 does not exist"},
    {"GradientShape", C25,
     [](PlanT &p) { find(p, AS(Update)).gradient = valueNamed(p, "loss"); },
     "the gradient of 'w' has shape [], not [2, 4]"},
    {"UpdateRule", C1, [](PlanT &p) { find(p, AS(Update)).rule = 5; },
     "rule 5 does not exist"},
    {"UpdateStates", C25, [](PlanT &p) { find(p, AS(Update)).states = {0}; },
     "rule 'sgd.0' takes 2 operands, given are 3"},
    {"CollectiveCount", C7, [](PlanT &p) { find(p, AS(Collective)).count = 7; },
     "its source has 32 bytes, which is not what it sends"},
    {"CollectiveDestination", C7,
     [](PlanT &p) {
       find(p, AS(Collective)).destination = valueNamed(p, "scaled");
     },
     "which is not what it receives"},
    {"CollectiveDim", C1,
     [](PlanT &p) { find(p, AS(Collective)).mesh_dim = 1; },
     "mesh dimension 1 does not exist"},
    {"CollectiveWithoutDims", C32,
     [](PlanT &p) { find(p, AS(Collective)).mesh_dims = 0; },
     "is over 0 mesh dimensions from 'shard' on, which are not all that have "
     "its role"},
    {"CollectiveDimsPastEnd", C32,
     [](PlanT &p) { find(p, AS(Collective)).mesh_dims = 2; },
     "is over 2 mesh dimensions from 'shard' on"},
    {"CopyPastEnd", C6,
     [](PlanT &p) {
       PieceT piece;
       piece.source = valueNamed(p, "x");
       piece.destination = valueNamed(p, "y");
       piece.block_bytes = 20;
       piece.blocks = 4;
       piece.source_stride = piece.destination_stride = 20;
       copyFirst(p, piece);
     },
     "copy: reaches past the end of a place of 60 bytes"},
    {"CopyOfHalfAParameter", C28,
     [](PlanT &p) {
       PieceT piece;
       piece.source = valueNamed(p, "w");
       piece.destination = valueNamed(p, "wide");
       piece.block_bytes = 16;
       copyFirst(p, piece);
     },
     "copies some bytes of value 2 (w) and leaves others"},
    {"CopyOverflow", C6,
     [](PlanT &p) {
       PieceT piece;
       piece.destination = valueNamed(p, "y");
       piece.block_bytes = 1;
       piece.blocks = 3;
       piece.destination_stride = uint64_t(1) << 63;
       step(p).commands.push_back(copyOf(piece));
     },
     "copy: reaches past the end"},
    {"CopyOfNothing", C6,
     [](PlanT &p) {
       auto command = std::make_unique<CommandT>();
       command->operation.Set(CopyT());
       step(p).commands.push_back(std::move(command));
     },
     "copies nothing"},
    {"WaitBeforeRecord", C8,
     [](PlanT &p) {
       step(p).events = 1;
       auto command = std::make_unique<CommandT>();
       command->operation.Set(WaitT());
       step(p).commands.push_back(std::move(command));
     },
     "waits for an event that was not recorded before"},
    {"NoOperation", C1,
     [](PlanT &p) { step(p).commands.push_back(std::make_unique<CommandT>()); },
     "has no operation"},
    {"Stream", C8, [](PlanT &p) { step(p).commands[0]->stream = 8; },
     "runs on stream 8, there are 6"},
    {"ComputesBesideItsStream", C8,
     [](PlanT &p) { step(p).commands[3]->stream = 1; },
     "computes on stream 1, which is for collectives"},
    {"GatherNotWaitedFor", C9,
     [](PlanT &p) { step(p).commands[0]->stream = 1; },
     "reads value 3 (gathered), which command 0 (model, stream 1) writes, "
     "without waiting for it"},
    {"ChannelOnTwoStreams", C8,
     [](PlanT &p) {
       auto gather = std::make_unique<CommandT>();
       gather->stream = 1;
       gather->operation = step(p).commands[0]->operation;
       auto &commands = step(p).commands;
       commands.insert(commands.begin(), std::move(gather));
     },
     "channel 0 is used by streams 1 and 0"},
    {"Divisor", C14, [](PlanT &p) { find(p, AS(Collective), 1).divisor = 4; },
     "divides by 4, not 2"},
    {"DivisorOfThePlan", C14,
     [](PlanT &p) {
       p.gradient_divisor = find(p, AS(Collective), 1).divisor = 4;
     },
     "divides gradients by 4, which is not the number of its ranks, 2"},
    {"DivisorOfAnother", C14,
     [](PlanT &p) {
       auto unit = std::make_unique<UnitT>();
       unit->gradient_divisor = 3;
       p.units.push_back(std::move(unit));
       find(p, AS(Collective), 1).unit = p.units.size() - 1;
     },
     "divides by 2, not 3"},
    {"GatherDivides", C14,
     [](PlanT &p) { find(p, AS(Collective)).divisor = 2; },
     "divides by 2, not 1"},
    {"ScatterOfTheStepItself", C14,
     [](PlanT &p) { find(p, AS(Collective), 1).of_step = true; },
     "is of the step itself, which has sums of its own tensors"},
    {"MaximumOfGradients", C14,
     [](PlanT &p) { find(p, AS(Collective), 1).op = ReduceOp::Max; },
     "takes a maximum, which only an all-reduce does"},
    {"UnknownRegion", C1,
     [](PlanT &p) {
       find(p, AS(Collective)).region = static_cast<ProgramRegion>(3);
     },
     "its region is unknown"},
    {"UnknownReduction", C1,
     [](PlanT &p) { find(p, AS(Collective), 1).op = static_cast<ReduceOp>(2); },
     "its operation is unknown"},
    {"SumOfBool", C14,
     [](PlanT &p) { find(p, AS(Collective), 1).dtype = DType::Bool; },
     "reduces bool"},
    {"CollectiveDType", C7,
     [](PlanT &p) { find(p, AS(Collective)).dtype = DType::Int32; },
     "moves int32, its values are float32 and float32"},
    {"WritesParameter", C18,
     [](PlanT &p) { find(p, AS(Aten), 2).results[0] = valueNamed(p, "w"); },
     "(w), which only updates may write"},
    {"UpdateTwice", C25,
     [](PlanT &p) {
       auto again = std::make_unique<CommandT>();
       again->operation = step(p).commands.back()->operation;
       step(p).commands.push_back(std::move(again));
     },
     "updates 'w' for the second time"},
    {"ScaleIsNoNumber", C25,
     [](PlanT &p) {
       UpdateT &update = find(p, AS(Update));
       update.scale = update.gradient;
     },
     "as a scalar, which is no floating-point number"},
    {"SkipDoesNotExist", C1, [](PlanT &p) { find(p, AS(Update)).skip = 999; },
     "999 does not exist"},
    {"RangeOfWhatIsNotFlat", C25, [](PlanT &p) { find(p, AS(Update)).end = 4; },
     "updates a range of 'w', which is not flat"},
    {"ReadAfterUpdate", C5,
     [](PlanT &p) {
       auto &commands = step(p).commands;
       auto gather = std::make_unique<CommandT>();
       gather->operation = commands[0]->operation;
       commands.push_back(std::move(gather));
     },
     "reads value 2 (w) after its update"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenCommand, ::testing::ValuesIn(breaks),
                         BrokenCommand::nameOf);
