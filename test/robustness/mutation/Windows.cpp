#include "Windows.h"
#include "plan/AlignUp.h"
#include "plan/check/LiveRanges.h"

#include <algorithm>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

constexpr int64_t elements = 16; // of a rank's piece: 64 bytes of float32

std::unique_ptr<Place> placeAtEnd(PlanT &plan, uint32_t arena, uint64_t bytes) {
  uint64_t &end = plan.arenas[arena]->bytes;
  auto place = std::make_unique<Place>(arena, end, bytes);
  end += fsdp::alignUp(bytes);
  return place;
}

/// Commands in front of a program's own, and their values.
class Prologue {
public:
  Prologue(PlanT &plan, ProgramT &program) : plan(plan), program(program) {}

  int value(std::unique_ptr<Place> place, std::vector<int64_t> shape,
            int state = -1) {
    auto v = std::make_unique<ValueT>();
    v->dtype = DType::Float32;
    v->strides = rowMajorStrides(shape);
    v->shape = std::move(shape);
    v->place = std::move(place);
    v->state = state;
    program.values.push_back(std::move(v));
    return program.values.size() - 1;
  }
  int own(std::vector<int64_t> shape) {
    uint64_t bytes = *numElements(shape) * dtypeBytes(DType::Float32);
    return value(placeAtEnd(plan, deviceArena, bytes), std::move(shape));
  }
  template <typename T> void add(T operation, uint32_t stream = computeStream) {
    auto command = std::make_unique<CommandT>();
    command->operation.Set(std::move(operation));
    command->stream = stream;
    commands.push_back(std::move(command));
  }
  void call(const char *name, int argument, int result) {
    AtenT call;
    call.name = name;
    call.arguments.push_back(std::make_unique<ArgumentT>());
    call.arguments[0]->kind = ArgumentKind::Value;
    call.arguments[0]->value = argument;
    call.results = {result};
    add(std::move(call));
  }
  /// Compute waits for what a stream has done.
  void await(uint32_t stream) {
    if (stream == computeStream)
      return;
    RecordT record;
    WaitT wait;
    record.event = wait.event = program.events++;
    add(record, stream);
    add(wait);
  }
  void finish() {
    program.commands.insert(program.commands.begin(),
                            std::make_move_iterator(commands.begin()),
                            std::make_move_iterator(commands.end()));
  }

private:
  PlanT &plan;
  ProgramT &program;
  std::vector<std::unique_ptr<CommandT>> commands;
};

/// A flat one, and what it holds.
unsigned addBuffer(PlanT &plan) {
  auto state = std::make_unique<StateT>();
  state->fqn = "shown";
  state->role = Role::Buffer;
  state->dtype = DType::Float32;
  state->local_shape = {elements};
  state->shape = {elements * static_cast<int64_t>(numShards(plan))};
  state->strides = {1};
  state->shard_dim = 0;
  state->is_flat = true;
  state->place = placeAtEnd(plan, deviceArena, elements * sizeof(float));
  unsigned shown = plan.states.size();
  auto member = std::make_unique<StateT>(*state);
  member->fqn = "shown.member";
  member->local_shape = member->shape;
  member->shard_dim = -1;
  member->is_flat = false;
  member->flat = shown;
  plan.states.push_back(std::move(state));
  plan.states.push_back(std::move(member));
  return shown;
}

} // namespace

Said fsdp::test::writeShownBuffer(PlanT &plan, Random &random) {
  auto site = findCollective(plan, random,
                             [](const CollectiveT &c) { return c.mapped; });
  if (!site)
    return {};
  CollectiveT gather = site->as<CollectiveT>();
  uint32_t stream = site->command().stream;
  unsigned state = addBuffer(plan);
  const Place place = *plan.states[state]->place;
  int64_t all = plan.states[state]->shape[0];

  Prologue before(plan, *site->program);
  int own = before.value(std::make_unique<Place>(place), {elements}, state);
  int shown =
      before.value(placeAtEnd(plan, windowArena, all * sizeof(float)), {all});
  int sum = before.own({}), turned = before.own({elements});
  bool byCopy = random() % 2, afterwards = random() % 2;
  auto write = [&] {
    if (byCopy) {
      CopyT zeros;
      zeros.pieces.push_back(std::make_unique<PieceT>());
      zeros.pieces[0]->destination = own;
      zeros.pieces[0]->block_bytes = place.bytes();
      return before.add(std::move(zeros));
    }
    before.call("aten::neg", own, turned);
    before.call("aten::neg", turned, own);
  };
  if (!afterwards)
    write();
  gather.source = own;
  gather.destination = shown;
  gather.dtype = DType::Float32;
  gather.count = elements;
  gather.unit = -1;
  before.add(std::move(gather), stream);
  before.await(stream);
  before.call("aten::sum", shown, sum);
  if (afterwards)
    write();
  before.finish();
  for (auto &program : plan.programs)
    program->live_bytes = liveBytes(plan, *program);
  return say(site->program->name, byCopy ? " by a copy" : " by an operator",
             afterwards ? " behind" : " before", " the read");
}
