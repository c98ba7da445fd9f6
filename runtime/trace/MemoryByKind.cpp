#include "trace/MemoryByKind.h"

#include "plan/AlignUp.h"
#include "plan/Collectives.h"
#include "plan/CommandValues.h"
#include "plan/check/LiveRanges.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace fsdp::trace {

uint64_t totalOf(const MemoryUse &use) {
  return std::accumulate(use.begin(), use.end(), uint64_t(0));
}

MemoryKind kindOf(plan::Role role) {
  switch (role) {
  case plan::Role::Parameter:
    return MemoryKind::Parameters;
  case plan::Role::Optimizer:
    return MemoryKind::Optimizer;
  case plan::Role::Buffer:
  case plan::Role::Constant:
    return MemoryKind::Buffers;
  case plan::Role::Gradient:
    return MemoryKind::Accumulated;
  }
  return MemoryKind::Buffers;
}

namespace {

/// Finds the kinds of a program's values, by root.
class Kinds {
public:
  Kinds(const plan::PlanT &plan, const plan::ProgramT &program)
      : plan(plan), program(program), kinds(program.values.size()) {}

  std::vector<MemoryKind> find() {
    for (size_t v = 0; v < kinds.size(); ++v)
      if (int state = program.values[v]->state; state >= 0)
        kinds[v] = kindOf(plan.states[state]->role);
    for (const auto &input : program.inputs)
      name(input->value, MemoryKind::Inputs);
    for (const auto &command : program.commands)
      nameOperandsOf(command->operation);
    // Parameters come out of what was gathered, in the order of the list;
    // gradients go into what is reduced, against it.
    for (const auto &command : program.commands)
      nameCopied(command->operation, /*forward=*/true);
    for (size_t c = program.commands.size(); c-- > 0;)
      nameCopied(program.commands[c]->operation, /*forward=*/false);
    nameResults();
    std::vector<MemoryKind> all;
    for (size_t v = 0; v < kinds.size(); ++v)
      all.push_back(*kinds[plan::rootOf(program, v)]);
    return all;
  }

private:
  std::optional<MemoryKind> &at(int value) {
    return kinds[plan::rootOf(program, value)];
  }
  void name(int value, MemoryKind kind) {
    if (value >= 0 && !at(value))
      at(value) = kind;
  }

  void nameOperandsOf(const plan::OperationUnion &operation) {
    if (const auto *collective = operation.AsCollective()) {
      MemoryKind kind = plan::infoOf(collective->kind).reduces
                            ? MemoryKind::Gradients
                            : MemoryKind::Gathered;
      name(collective->source, kind);
      name(collective->destination, kind);
    } else if (const auto *update = operation.AsUpdate()) {
      name(update->gradient, MemoryKind::Gradients);
      name(update->staged, MemoryKind::Gathered);
    }
  }

  void nameCopied(const plan::OperationUnion &operation, bool forward) {
    const plan::CopyT *copy = operation.AsCopy();
    if (!copy)
      return;
    for (const auto &piece : copy->pieces) {
      if (piece->source < 0)
        continue;
      auto from = at(piece->source), to = at(piece->destination);
      if (forward &&
          (from == MemoryKind::Gathered || from == MemoryKind::Parameters))
        name(piece->destination, MemoryKind::Gathered);
      if (forward && from == MemoryKind::Gradients)
        name(piece->destination, MemoryKind::Gradients);
      if (!forward && to == MemoryKind::Gradients)
        name(piece->source, MemoryKind::Gradients);
    }
  }

  /// What is used after the loss is there was kept for backward.
  void nameResults() {
    std::vector<plan::LiveRange> ranges = plan::liveRanges(program);
    int loss = whenLossIsThere();
    for (size_t v = 0; v < kinds.size(); ++v)
      if (plan::rootOf(program, v) == static_cast<int>(v) && !kinds[v])
        kinds[v] = ranges[v].first <= loss && ranges[v].last > loss
                       ? MemoryKind::Activations
                       : MemoryKind::Temporaries;
  }

  int whenLossIsThere() const {
    if (program.outputs.empty())
      return -1;
    int loss = plan::rootOf(program, program.outputs[0]->value);
    for (size_t c = 0; c < program.commands.size(); ++c)
      if (const auto *aten = program.commands[c]->operation.AsAten())
        for (int result : aten->results)
          if (result >= 0 && plan::rootOf(program, result) == loss)
            return static_cast<int>(c);
    return -1;
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  std::vector<std::optional<MemoryKind>> kinds;
};

/// What states take: each its own, and padding up to the first value.
MemoryUse useOfStates(const plan::PlanT &plan, uint32_t arena) {
  MemoryUse use = {};
  uint64_t end = 0;
  for (const auto &state : plan.states) {
    if (state->place->arena() != arena)
      continue;
    end = std::max(end, state->place->offset() + state->place->bytes());
    if (state->flat < 0)
      use[static_cast<size_t>(kindOf(state->role))] += state->place->bytes();
  }
  uint64_t all = alignUp(end), named = totalOf(use);
  use[static_cast<size_t>(MemoryKind::Padding)] = all > named ? all - named : 0;
  return use;
}

} // namespace

std::vector<MemoryKind> kindsOf(const plan::PlanT &plan,
                                const plan::ProgramT &program) {
  return Kinds(plan, program).find();
}

std::vector<MemoryUse> memoryByKind(const plan::PlanT &plan,
                                    const plan::ProgramT &program,
                                    uint32_t arena) {
  std::vector<MemoryKind> kinds = kindsOf(plan, program);
  std::vector<plan::LiveRange> ranges = plan::liveRanges(program);
  std::vector<MemoryUse> history(program.commands.size() + 1,
                                 useOfStates(plan, arena));
  for (size_t v = 0; v < ranges.size(); ++v) {
    const plan::ValueT &value = *program.values[v];
    auto [first, last] = ranges[v];
    if (last < first || value.state != -1 || value.place->arena() != arena)
      continue;
    int end = std::min<int>(last, program.commands.size() - 1);
    for (int c = first; c <= end; ++c)
      history[c + 1][static_cast<size_t>(kinds[v])] +=
          alignUp(value.place->bytes());
  }
  return history;
}

} // namespace fsdp::trace
