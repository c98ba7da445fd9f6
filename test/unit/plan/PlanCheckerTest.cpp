// Tests that the checker passes a valid plan, and refuses one whose tables are
// broken (mesh, arenas, states with their recipes, rules) with the error that
// says what is wrong.
#include "PlanParts.h"

using namespace fsdp::plan;
using namespace fsdp::test;

TEST(PlanChecker, PassesValidPlans) {
  for (unsigned ranks : {1, 2, 5})
    EXPECT_EQ(check(linearRegression(ranks, 3, 4, 5)->finish()), "");
}

TEST(PlanChecker, GoesOnBehindAFinding) {
  auto builder = linearRegression(2, 3, 4, 5);
  PlanT &plan = builder->finish();
  ASSERT_EQ(plan.programs.size(), 2u);
  for (auto &program : plan.programs)
    ++program->live_bytes;
  std::vector<size_t> programs;
  checkPlan(plan, [&](const Finding &found) {
    EXPECT_EQ(found.constraint, C29) << found.what();
    programs.push_back(found.entry.index);
  });
  EXPECT_EQ(programs, (std::vector<size_t>{0, 1}));
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

namespace {
struct BrokenTable : BrokenPlan {};
} // namespace

TEST_P(BrokenTable, IsRefused) { expectRefused(); }

static const Break<PlanT> breaks[] = {
    {"Version", C20, [](PlanT &p) { p.version = 99; }, "it has version 99"},
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
    {"FlatWithoutMembers", C22, [](PlanT &p) { p.states[0]->is_flat = true; },
     "state 'w': is flat, so that it is not saved, and has no members"},
    {"PersistentParameter", C22,
     [](PlanT &p) { p.states[0]->persistent = true; },
     "state 'w': is said to be a buffer of state_dict(), and is none"},
    {"TrainableBuffer", C22,
     [](PlanT &p) {
       p.states[0]->role = Role::Buffer;
       p.states[0]->trainable = true;
     },
     "state 'w': is trainable, which only a parameter can be"},
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
    {"RuleCountsInNoBuffer", C24, [](PlanT &p) { p.rules[0]->missed = 0; },
     "which is no buffer of one float64"},
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
    {"FormerAhead", C24,
     [](PlanT &p) {
       ScalarT &scalar = *p.rules[0]->scalars[1];
       scalar.kind = ScalarKind::Former;
       scalar.a = static_cast<int>(p.rules[0]->scalars.size());
       scalar.b = 0;
     },
     "scalar 1: refers to scalar 2, which does not exist"},
    {"FormerOfAProgram", C24,
     [](PlanT &p) {
       p.programs[0]->scalars.push_back(std::make_unique<ScalarT>());
       p.programs[0]->scalars.push_back(std::make_unique<ScalarT>());
       ScalarT &scalar = *p.programs[0]->scalars.back();
       scalar.kind = ScalarKind::Former;
       scalar.a = 1;
       scalar.b = 0;
     },
     "scalar 1: follows from the step before, which rules alone keep"},
    {"ScalarHyperparameter", C1,
     [](PlanT &p) { p.rules[0]->scalars[0]->hyperparameter = 3; },
     "hyperparameter 3 does not exist"},
    {"NegativeDivisor", C14,
     [](PlanT &p) {
       auto unit = std::make_unique<UnitT>();
       unit->gradient_divisor = -1;
       p.units.push_back(std::move(unit));
     },
     "divides gradients by -1"},
    {"ArenaTooLarge", C13, [](PlanT &p) { p.arenas[0]->bytes += 64; },
     "arena 'device': has"},
    {"Device", C1, [](PlanT &p) { p.device = static_cast<DeviceKind>(2); },
     "its device is unknown"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenTable, ::testing::ValuesIn(breaks),
                         BrokenTable::nameOf);
