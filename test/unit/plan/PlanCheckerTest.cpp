// Tests that the checker passes a valid plan, and refuses each way to break it
// with the error that says what is wrong.
#include "BrokenPlans.h"
#include "PlanBuilder.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;
using namespace fsdp::test;

static ProgramT &step(PlanT &plan) { return *plan.programs[0]; }

template <typename T>
static T &find(PlanT &plan, T *(OperationUnion::*as)(), int skip = 0) {
  for (auto &command : step(plan).commands)
    if (T *operation = (command->operation.*as)())
      if (skip-- == 0)
        return *operation;
  throw std::logic_error("the plan has no such command");
}

static int valueNamed(PlanT &plan, const std::string &name) {
  auto &values = step(plan).values;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]->name == name)
      return i;
  throw std::logic_error("the plan has no value " + name);
}
static ValueT &named(PlanT &plan, const std::string &name) {
  return *step(plan).values[valueNamed(plan, name)];
}

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

TEST(PlanChecker, PassesValidPlans) {
  for (unsigned ranks : {1, 2, 5})
    EXPECT_EQ(check(linearRegression(ranks, 3, 4, 5)->finish()), "");
}

namespace {
struct BrokenPlan : ::testing::TestWithParam<Break<PlanT>> {};
} // namespace

TEST_P(BrokenPlan, IsRefused) {
  auto builder = linearRegression(2, 3, 4, 5);
  PlanT &plan = builder->finish();
  GetParam().apply(plan);
  GetParam().expectRefused(plan);
}

/// Gives state `w`, float32 of [3, 4], a recipe of one step.
static InitStepT &startsAs(PlanT &plan, InitKind kind, double a = 0,
                           double b = 0) {
  auto step = std::make_unique<InitStepT>();
  step->kind = kind;
  step->a = a;
  step->b = b;
  plan.states[0]->init.push_back(std::move(step));
  return *plan.states[0]->init.back();
}

static void fillRegion(PlanT &plan, uint64_t offset, Shape sizes,
                       Shape strides) {
  startsAs(plan, InitKind::Fill);
  auto region = std::make_unique<RegionT>();
  region->offset = offset;
  region->sizes = sizes;
  region->strides = strides;
  startsAs(plan, InitKind::Fill).region = std::move(region);
}

TEST(PlanChecker, PassesRecipes) {
  auto builder = linearRegression(2, 3, 4, 5);
  PlanT &plan = builder->finish();
  fillRegion(plan, 1, {2, 2}, {2, 4}); // two columns of two rows, transposed
  startsAs(plan, InitKind::Clamp, -1, 1);
  EXPECT_EQ(check(plan), "");
}

#define AS(Op) &OperationUnion::As##Op

static const Break<PlanT> breaks[] = {
    {"Version", C20, [](PlanT &p) { p.version = 9; }, "it has version 9"},
    {"NoStep", C21, [](PlanT &p) { p.programs.erase(p.programs.begin()); },
     "it has no program 'step'"},
    {"ProgramTwice", C21, [](PlanT &p) { p.programs[1]->name = "step"; },
     "program 'step': exists twice"},
    {"RecipeOfNothing", C23,
     [](PlanT &p) { startsAs(p, InitKind::Multiply, 2); },
     "state 'w': step 0 of its recipe: is the first and gives no value to "
     "every element"},
    {"RecipeOfNoKind", C1,
     [](PlanT &p) { startsAs(p, static_cast<InitKind>(99)); },
     "its kind is unknown"},
    {"EmptyUniform", C23,
     [](PlanT &p) { startsAs(p, InitKind::Uniform, 1, 0); },
     "draws from an empty range"},
    {"NegativeDeviation", C23,
     [](PlanT &p) { startsAs(p, InitKind::Normal, 0, -1); },
     "has a negative deviation"},
    {"InfiniteFill", C23,
     [](PlanT &p) { startsAs(p, InitKind::Fill, 1 / 0.0); },
     "has a number that is not finite"},
    {"RegionOutside", C23, [](PlanT &p) { fillRegion(p, 9, {4}, {1}); },
     "step 1 of its recipe: is for elements that the tensor does not have"},
    {"RegionTwice", C23,
     [](PlanT &p) {
       fillRegion(p, 0, {2, 3}, {1, 1});
     },
     "or for one twice"},
    {"RegionWithoutStrides", C23, [](PlanT &p) { fillRegion(p, 0, {2}, {}); },
     "as many sizes as strides"},
    {"MeshWithoutShards", C20,
     [](PlanT &p) { p.mesh[0]->role = AxisRole::Replicate; },
     "states are cut along one dimension, and 0 are for it"},
    {"MeshOfManyDimensions", C20,
     [](PlanT &p) {
       while (p.mesh.size() < 65)
         p.mesh.push_back(std::make_unique<MeshDimT>(*p.mesh[0]));
     },
     "mesh: has 65 dimensions, more than 64"},
    {"MeshOfReplicasApart", C20,
     [](PlanT &p) {
       for (const char *name : {"a", "b"}) {
         auto replicas = std::make_unique<MeshDimT>();
         replicas->name = name;
         replicas->size = 1;
         replicas->role = AxisRole::Replicate;
         p.mesh.push_back(std::move(replicas));
       }
       std::swap(p.mesh[0], p.mesh[1]);
     },
     "mesh dimension 'b': is no neighbour of the dimensions of its role"},
    {"MeshWithoutRanks", C20, [](PlanT &p) { p.mesh[0]->size = 0; },
     "mesh dimension 'shard': has no ranks"},
    {"ArenaName", C20, [](PlanT &p) { p.arenas[1]->name = "scratch"; },
     "arena 1 is 'scratch', not 'window'"},
    {"StateOutsideArena", C2, [](PlanT &p) { p.arenas[0]->bytes = 16; },
     "state 'w': its place reaches past the end of the device arena"},
    {"StateShape", C22,
     [](PlanT &p) {
       p.states[0]->local_shape = {1, 4};
     },
     "state 'w': local shape [1, 4] is not one of 2 parts of [3, 4]"},
    {"StateWithoutPlace", C2, [](PlanT &p) { p.states[0]->place.reset(); },
     "state 'w': has no place"},
    {"StatesShareBytes", C2,
     [](PlanT &p) {
       auto copy = std::make_unique<StateT>();
       copy->fqn = "v";
       copy->dtype = DType::Float32;
       copy->place = std::make_unique<Place>(0, 0, 4);
       p.states.push_back(std::move(copy));
     },
     "shares bytes with state"},
    {"RuleReadsAhead", C24,
     [](PlanT &p) { p.rules[0]->calls[0]->arguments[0]->value = 2; },
     "rule 'sgd.0': reads value 2 before it is written"},
    {"RuleResults", C24, [](PlanT &p) { p.rules[0]->results = {}; },
     "rule 'sgd.0': must give a result for the parameter and for each state"},
    {"RuleOfRandomNumbers", C24,
     [](PlanT &p) {
       p.rules[0]->calls[0]->arguments.push_back(
           std::make_unique<ArgumentT>(site(1)));
     },
     "draws random numbers, which ranks would not agree on"},
    {"ScalarAhead", C24, [](PlanT &p) { p.rules[0]->scalars[1]->a = 1; },
     "scalar 1: refers to scalar 1, which is not an earlier one"},
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
    {"FormerAhead", C24,
     [](PlanT &p) {
       ScalarT &scalar = *p.rules[0]->scalars[1];
       scalar.kind = ScalarKind::Former;
       scalar.a = static_cast<int>(p.rules[0]->scalars.size());
       scalar.b = 0;
     },
     "scalar 1: refers to scalar 2, which does not exist"},
    {"ScalarHyperparameter", C1,
     [](PlanT &p) { p.rules[0]->scalars[0]->hyperparameter = 3; },
     "hyperparameter 3 does not exist"},
    {"Unaligned", C2,
     [](PlanT &p) {
       named(p, "loss").place = std::make_unique<Place>(0, 8, 4);
     },
     "(loss): its place at 8 is not a multiple of 64"},
    {"PlaceTooSmall", C2,
     [](PlanT &p) {
       named(p, "gathered").shape = {40, 4};
     },
     "(gathered): needs 640 bytes, its place has"},
    {"NegativeStride", C2,
     [](PlanT &p) {
       named(p, "x").strides = {4, -1};
     },
     "do not describe a tensor"},
    {"ElementsInOnePlace", C2,
     [](PlanT &p) {
       named(p, "x").strides = {1, 1};
       const Place &place = *named(p, "x").place;
       named(p, "x").place =
           std::make_unique<Place>(place.arena(), place.offset(), 32);
     },
     "strides [1, 1] put several elements of [5, 4] in one place"},
    {"HugeShape", C2,
     [](PlanT &p) {
       named(p, "x").shape = {int64_t(1) << 40, int64_t(1) << 40};
     },
     "do not describe a tensor"},
    {"Arena", C1,
     [](PlanT &p) { named(p, "x").place = std::make_unique<Place>(7, 0, 80); },
     "arena 7 does not exist, there are 3"},
    {"ViewCycle", C3,
     [](PlanT &p) {
       int i = valueNamed(p, "full");
       named(p, "full").view_of = i;
     },
     "which is not an earlier one"},
    {"ViewOutsideBase", C3,
     [](PlanT &p) {
       Place &place = *named(p, "full").place;
       place = Place(0, place.offset() + 64, place.bytes());
     },
     "has another place than the value that it is a view of"},
    {"StateValueDiffers", C2,
     [](PlanT &p) { named(p, "w").dtype = DType::Int32; },
     "differs from state 'w'"},
    {"InputsShareBytes", C2,
     [](PlanT &p) {
       Place x = *named(p, "x").place;
       *named(p, "y").place = Place(0, x.offset(), 60);
     },
     "input 'y': shares bytes with value 0 (x)"},
    {"InputMissing", C1, [](PlanT &p) { step(p).inputs[0]->value = 99; },
     "input 'x': value 99 does not exist"},
    {"NoLoss", C21, [](PlanT &p) { step(p).outputs[0]->name = "cost"; },
     "its first output is not 'loss'"},
    {"LossIsNoNumber", C21,
     [](PlanT &p) { step(p).outputs[0]->value = valueNamed(p, "square"); },
     "its loss is not one number"},
    {"StepGivesATensor", C21,
     [](PlanT &p) {
       auto output = std::make_unique<fsdp::plan::OutputT>();
       output->name = "square";
       output->value = valueNamed(p, "square");
       step(p).outputs.push_back(std::move(output));
     },
     "it has dimensions, which outputs of 'eval' alone may have"},
    {"ReadBeforeWrite", C5,
     [](PlanT &p) { std::swap(step(p).commands[3], step(p).commands[4]); },
     "(prediction) before it is written"},
    {"ReusedTooEarly", C4,
     [](PlanT &p) {
       // The difference is read again for the gradient.
       Place place = *named(p, "difference").place;
       *named(p, "square").place = Place(0, place.offset() + 64, 60);
       named(p, "difference").place =
           std::make_unique<Place>(0, place.offset() + 64, 60);
     },
     "shares bytes with what the command also uses"},
    {"OverwrittenOutput", C5,
     [](PlanT &p) {
       Place loss = *named(p, "loss").place;
       named(p, "gradient").place =
           std::make_unique<Place>(0, loss.offset(), 48);
     },
     "output 'loss': reads value"},
    {"ViewNotMade", C3,
     [](PlanT &p) { step(p).commands.erase(step(p).commands.begin() + 1); },
     "a view that is not made yet"},
    {"ViewOfAnother", C3,
     [](PlanT &p) {
       find(p, AS(Aten)).arguments[0]->value = valueNamed(p, "x");
     },
     "is not a view of an argument"},
    {"WritesView", C3,
     [](PlanT &p) {
       find(p, AS(Collective)).destination = valueNamed(p, "full");
     },
     "writes value"},
    {"NoNamespace", C1, [](PlanT &p) { find(p, AS(Aten)).name = "slice"; },
     "operator 'slice' has no namespace"},
    {"ValueArgument", C1,
     [](PlanT &p) { find(p, AS(Aten)).arguments[0]->value = -4; },
     "value -4 does not exist"},
    {"ScalarOfAGpu", C19, [](PlanT &p) { p.device = DeviceKind::Cuda; },
     "takes a number of the step, which a GPU has in memory alone"},
    {"ScalarOfAGpusState", C19,
     [](PlanT &p) {
       p.device = DeviceKind::Cuda;
       StateT &skipped = *p.states.emplace_back(new StateT(*p.states[0]));
       skipped.fqn = "skipped";
       skipped.role = Role::Buffer;
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
    {"NegativeDivisor", C14,
     [](PlanT &p) {
       auto unit = std::make_unique<UnitT>();
       unit->gradient_divisor = -1;
       p.units.push_back(std::move(unit));
     },
     "divides gradients by -1"},
    {"GatherDivides", C14,
     [](PlanT &p) { find(p, AS(Collective)).divisor = 2; },
     "divides by 2, not 1"},
    {"MaximumOfGradients", C14,
     [](PlanT &p) { find(p, AS(Collective), 1).op = ReduceOp::Max; },
     "takes a maximum, which only an all-reduce does"},
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
    {"ArenaTooLarge", C13, [](PlanT &p) { p.arenas[0]->bytes += 64; },
     "arena 'device': has"},
    {"LiveBytes", C29, [](PlanT &p) { step(p).live_bytes = 1 << 20; },
     "says that 1048576 bytes of the device arena are in use at one time, but "
     "they "
     "are 384"},
    {"Device", C1, [](PlanT &p) { p.device = static_cast<DeviceKind>(2); },
     "its device is unknown"},
    {"PartOutside", C11,
     [](PlanT &p) { named(p, "gradient").part_of = valueNamed(p, "scaled"); },
     "reaches out of the value that it is a part of"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenPlan, ::testing::ValuesIn(breaks),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });
