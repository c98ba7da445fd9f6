// Tests that the checker refuses a plan whose programs have broken values,
// inputs or outputs, or use memory in a wrong order.
#include "PlanParts.h"

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {
struct BrokenValue : BrokenPlan {};
} // namespace

TEST_P(BrokenValue, IsRefused) { expectRefused(); }

static const Break<PlanT> breaks[] = {
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
    {"LiveBytes", C29, [](PlanT &p) { step(p).live_bytes = 1 << 20; },
     "says that 1048576 bytes of the device arena are in use at one time, but "
     "they "
     "are 384"},
    {"PartOutside", C11,
     [](PlanT &p) { named(p, "gradient").part_of = valueNamed(p, "scaled"); },
     "reaches out of the value that it is a part of"},
};

INSTANTIATE_TEST_SUITE_P(Each, BrokenValue, ::testing::ValuesIn(breaks),
                         BrokenValue::nameOf);
