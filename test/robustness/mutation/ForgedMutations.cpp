// What an author of plans could write who makes everything else fit: a change
// that each of its own checks would pass, were there not one more.
#include "Sites.h"
#include "plan/GradientDivisors.h"
#include "plan/check/LiveRanges.h"
#include "plan/operands/OperandShapes.h"

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

/// All sums are divided by twice as much, and the plan says so.
Said divideByMore(PlanT &plan, Random &) {
  plan.gradient_divisor *= 2;
  for (auto &program : plan.programs)
    for (auto &command : program->commands)
      if (CollectiveT *c = command->operation.AsCollective())
        c->divisor *= c->divisor == 1 ? 1 : 2;
  return say("by ", plan.gradient_divisor);
}

/// Those of one unit, and the unit says so.
Said divideUnitByMore(PlanT &plan, Random &random) {
  auto site = findCollective(plan, random, [](const CollectiveT &c) {
    return c.divisor != 1 && c.unit != -1;
  });
  if (!site)
    return {};
  int unit = site->as<CollectiveT>().unit;
  plan.units[unit]->gradient_divisor = 2 * gradientDivisor(plan, unit);
  for (auto &program : plan.programs)
    for (auto &command : program->commands)
      if (CollectiveT *c = command->operation.AsCollective())
        c->divisor *= c->divisor == 1 || c->unit != unit ? 1 : 2;
  return say("unit ", plan.units[unit]->name);
}

Said addMicroBatch(PlanT &plan, Random &) {
  if (plan.micro_batches == 1)
    return {};
  ++plan.micro_batches;
  return say(plan.micro_batches);
}

/// The plan says another digest of what a program computes.
Said forgeMeaning(PlanT &plan, Random &random) {
  auto &program = *plan.programs[random() % plan.programs.size()];
  auto at = pick(program.meanings.size(), random);
  if (!at)
    return {};
  program.meanings[*at]->low ^= 1;
  return say(program.name, " meaning ", *at);
}

/// It says nothing of something that a program computes, or of all of that
/// where it speaks of another program.
Said dropMeaning(PlanT &plan, Random &random) {
  auto &program = *plan.programs[random() % plan.programs.size()];
  auto &meanings = program.meanings;
  auto at = pick(meanings.size(), random);
  if (!at)
    return {};
  if (plan.programs.size() > 1 && random() % 2) {
    meanings.clear();
    return say(program.name);
  }
  meanings.erase(meanings.begin() + *at);
  return say(program.name, " meaning ", *at);
}

/// A state is said to hold others' elements, so that nobody reads or saves it.
Said hideState(PlanT &plan, Random &random) {
  StateT &state = *plan.states[random() % plan.states.size()];
  if (state.is_flat || !state.init.empty())
    return {};
  state.is_flat = true;
  return say(state.fqn);
}

/// What a micro-batch gives is not added to the others', but taken from them.
Said sumOtherwise(PlanT &plan, Random &random) {
  std::vector<uint32_t> rules;
  for (size_t r = 0; r < plan.rules.size(); ++r)
    if (plan.rules[r]->operands == 2 && !addsGradient(*plan.rules[r]))
      rules.push_back(r);
  auto site =
      findCommand(plan, random, [&](const ProgramT &, const CommandT &command) {
        const auto *update = command.operation.AsUpdate();
        return update && plan.states[update->parameter]->role == Role::Gradient;
      });
  auto rule = pick(rules.size(), random);
  if (!site || !rule)
    return {};
  site->as<UpdateT>().rule = rules[*rule];
  return say(site->text());
}

/// A number that people are shown has another one's name.
Said renameOutput(PlanT &plan, Random &random) {
  auto &program = *plan.programs[random() % plan.programs.size()];
  if (program.outputs.size() < 2)
    return {};
  size_t at = 1 + random() % (program.outputs.size() - 1);
  program.outputs[at]->name = "accuracy";
  return say(program.name, " output ", at);
}

/// A state's rows lie over each other, and its place is as small as they are.
Said overlapElements(PlanT &plan, Random &random) {
  std::vector<size_t> states;
  for (size_t s = 0; s < plan.states.size(); ++s)
    if (const StateT &state = *plan.states[s];
        state.flat == -1 && state.local_shape.size() > 1 &&
        state.local_shape[0] > 1 && state.local_shape[1] > 1)
      states.push_back(s);
  auto at = pick(states.size(), random);
  if (!at)
    return {};
  size_t s = states[*at];
  StateT &state = *plan.states[s];
  state.strides.assign(state.strides.size(), random() % 2);
  const Place place(state.place->arena(), state.place->offset(),
                    *spanBytes(state.local_shape, state.strides, state.dtype));
  *state.place = place;
  for (auto &program : plan.programs) {
    for (auto &value : program->values)
      if (value->state == static_cast<int>(s)) {
        value->strides = state.strides;
        *value->place = place;
      }
    program->live_bytes = liveBytes(plan, *program);
    program->host_live_bytes = liveBytes(plan, *program, hostArena);
  }
  return say(state.fqn);
}

/// A random operator whose numbers come from no site.
Said drawInSecret(PlanT &plan, Random &random) {
  constexpr const char *names[] = {"aten::rand_like", "aten::randn_like",
                                   "aten::bernoulli"};
  auto site = findCommand(
      plan, random, [](const ProgramT &program, const CommandT &command) {
        const auto *call = command.operation.AsAten();
        return call && !call->view && call->arguments.size() == 1 &&
               call->results.size() == 1 && call->results[0] != -1 &&
               call->arguments[0]->kind == ArgumentKind::Value &&
               isFloating(program.values[call->results[0]]->dtype);
      });
  if (!site)
    return {};
  for (auto &program : plan.programs)
    program->meanings.clear();
  AtenT &call = site->as<AtenT>();
  call.name = names[random() % std::size(names)];
  call.overload = "";
  return say(site->text(), " ", call.name);
}

Said drawInRule(PlanT &plan, Random &random) {
  auto at = pick(plan.rules.size(), random);
  if (!at || plan.rules[*at]->calls.empty())
    return {};
  auto &calls = plan.rules[*at]->calls;
  AtenT &call = *calls[random() % calls.size()];
  auto site = std::make_unique<ArgumentT>();
  site->kind = ArgumentKind::Generator;
  site->i = random() % 100;
  call.arguments.push_back(std::move(site));
  for (auto &program : plan.programs)
    program->meanings.clear();
  return say("rule ", plan.rules[*at]->name, " ", call.name);
}

/// Two operands of other shapes change places, where the kernel does not look.
Said exchangeOperands(PlanT &plan, Random &random) {
  auto two = [](const ProgramT &program, const AtenT &call) {
    std::vector<std::pair<ArgumentT *, ArgumentT *>> pairs;
    for (const auto &a : call.arguments)
      for (const auto &b : call.arguments)
        if (a != b && a->kind == ArgumentKind::Value &&
            b->kind == ArgumentKind::Value &&
            program.values[a->value]->shape != program.values[b->value]->shape)
          pairs.emplace_back(a.get(), b.get());
    return pairs;
  };
  auto site = findCommand(
      plan, random, [&](const ProgramT &program, const CommandT &command) {
        const auto *call = command.operation.AsAten();
        return call && trustsShapes(call->name) && !two(program, *call).empty();
      });
  if (!site)
    return {};
  for (auto &program : plan.programs)
    program->meanings.clear();
  AtenT &call = site->as<AtenT>();
  auto pairs = two(*site->program, call);
  auto [a, b] = pairs[random() % pairs.size()];
  std::swap(a->value, b->value);
  return say(site->text(), " ", call.name);
}

} // namespace

const std::vector<fsdp::test::Mutation> fsdp::test::forgedMutations = {
    {"other divisor everywhere", divideByMore},
    {"other divisor of a unit everywhere", divideUnitByMore},
    {"other number of micro-batches", addMicroBatch},
    {"forged meaning", forgeMeaning},
    {"dropped meaning", dropMeaning},
    {"parameter that is not saved", hideState},
    {"sum by another rule", sumOtherwise},
    {"output of another name", renameOutput},
    {"elements in one place", overlapElements},
    {"random numbers in secret", drawInSecret},
    {"random numbers of a rule", drawInRule},
    {"operands of other shapes", exchangeOperands},
};
