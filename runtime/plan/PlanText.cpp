#include "plan/PlanText.h"

#include "plan/Collectives.h"
#include "plan/FormatText.h"
#include "plan/Names.h"
#include "plan/OperationText.h"
#include "plan/meaning/Meanings.h"

#include <algorithm>
#include <tuple>

using namespace fsdp;
using namespace fsdp::plan;

namespace {

/// "all_gather", as in the IR.
std::string collectiveName(CollectiveKind kind) {
  std::string name = infoOf(kind).name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string bytesText(uint64_t bytes) {
  if (bytes < 10 * 1024)
    return std::to_string(bytes) + " B";
  std::string text = std::to_string(bytes / 1048576.0);
  return std::to_string(bytes) + " B (" + text.substr(0, text.find('.') + 3) +
         " MiB)";
}

std::string placeText(const Place &place) {
  return std::string(arenaNames[place.arena()]) + " " +
         std::to_string(place.offset()) + "+" + std::to_string(place.bytes());
}

/// Ranks that are listed one by one.
constexpr uint64_t maxShown = 8;

/// "Shard(0) 3,3,3,1": the true length of each rank's part of the split
/// dimension, the padding left out.
std::string placementText(const PlanT &plan, const StateT &state) {
  if (state.shard_dim < 0)
    return "Replicate";
  std::string text = "Shard(" + std::to_string(state.shard_dim) + ")";
  int64_t left = state.shape[state.shard_dim];
  int64_t local = state.local_shape[state.shard_dim];
  uint64_t ranks = numShards(plan);
  for (uint64_t r = 0; r < std::min(ranks, maxShown); ++r) {
    int64_t size = std::min(left, local);
    left -= size;
    text += (r ? "," : " ") + std::to_string(size);
  }
  return ranks > maxShown ? text + ",..." : text;
}

/// "normal(0, 0.02) draw 3, fill(0) of [16] by [1] at 64".
std::string initText(const StateT &state) {
  // By kind: its name and how many numbers it takes.
  static constexpr std::pair<const char *, int> kinds[] = {
      {"fill", 1}, {"uniform", 2}, {"normal", 2}, {"multiply", 1},
      {"add", 1},  {"clamp", 2},   {"erfinv", 0}};
  std::string text;
  for (const auto &step : state.init) {
    auto [name, numbers] = kinds[static_cast<size_t>(step->kind)];
    appendListed(text, name);
    if (numbers)
      text += "(" + numberText(step->a.value_or(0)) +
              (numbers > 1 ? ", " + numberText(step->b) : "") + ")";
    if (step->kind == InitKind::Uniform || step->kind == InitKind::Normal)
      text += " draw " + std::to_string(step->draw);
    if (const RegionT *region = step->region.get())
      text += " of " + formatShape(region->sizes) + " by " +
              formatShape(region->strides) + " at " +
              std::to_string(region->offset);
  }
  return text;
}

/// "rank 0 at (0, 0), rank 1 at (0, 1), ...".
std::string coordinatesText(const PlanT &plan) {
  std::string text;
  uint64_t ranks = numRanks(plan);
  for (uint32_t r = 0; r < std::min(ranks, maxShown); ++r) {
    std::string at;
    for (uint32_t dim = 0; dim < plan.mesh.size(); ++dim)
      appendListed(at, std::to_string(groupOf(plan, {dim, 1}, r).indexOf(r)));
    appendListed(text, "rank " + std::to_string(r) + " at (" + at + ")");
  }
  return ranks > maxShown ? text + ", ..." : text;
}

class Printer {
public:
  Printer(const LoadedPlan &loaded, std::ostream &out)
      : plan(*loaded.plan), digest(loaded.digest), out(out) {}

  void print() {
    printHeader();
    printStates();
    for (const auto &rule : plan.rules)
      printRule(*rule);
    for (const auto &program : plan.programs)
      printProgram(*program);
  }

private:
  void printHeader() {
    out << "plan " << digest << "\n";
    out << "source " << plan.source << ", PyTorch " << plan.torch_version
        << ", seed " << plan.seed;
    if (plan.device == DeviceKind::Cuda)
      out << ", for GPUs";
    if (plan.epochs)
      out << ", " << plan.epochs << " epochs";
    if (plan.steps)
      out << ", " << plan.steps << " steps";
    if (plan.micro_batches > 1)
      out << ", " << plan.micro_batches << " micro-batches a step";
    out << "\n";
    if (!plan.pipeline.empty())
      out << "pipeline " << plan.pipeline << "\n";
    out << "mesh";
    for (const auto &dim : plan.mesh)
      out << " " << dim->name << "=" << dim->size;
    if (plan.mesh.size() > 1)
      out << ": " << coordinatesText(plan);
    out << (plan.mesh.empty() ? " 1 rank\n" : "\n");
    for (const auto &arena : plan.arenas)
      out << "arena " << arena->name << " " << bytesText(arena->bytes)
          << (arena->pinned ? ", pinned\n" : "\n");
    const char *separator = "hyperparameters ";
    for (const auto &one : plan.hyperparameters) {
      out << separator << one->name << " of group " << one->group << " "
          << one->value;
      separator = ", ";
    }
    if (!plan.schedule.empty())
      out << ", in a table of "
          << plan.schedule.size() / plan.hyperparameters.size() << " steps";
    out << (plan.hyperparameters.empty() ? "" : "\n");
  }

  void printStates() {
    for (const auto &state : plan.states) {
      out << nameOf(state->role) << " " << (state->fqn) << ": "
          << dtypeName(state->dtype) << " " << formatShape(state->shape) << ", "
          << placementText(plan, *state) << ", local "
          << formatShape(state->local_shape) << ", at "
          << placeText(*state->place);
      if (state->unit >= 0)
        out << ", unit '" << plan.units[state->unit]->name << "'";
      if (state->role == Role::Parameter && !state->trainable)
        out << ", frozen";
      for (const std::string &alias : state->aliases)
        out << ", also " << alias;
      if (!state->init.empty())
        out << ", starts as " << initText(*state);
      out << "\n";
    }
  }

  void printScalars(const std::vector<std::unique_ptr<ScalarT>> &scalars) {
    for (size_t i = 0; i < scalars.size(); ++i)
      out << "  s" << i << " = " << scalarText(*scalars[i], plan) << "\n";
  }

  void printRule(const RuleT &rule) {
    out << "\nrule " << rule.name << " of " << rule.operands << " operands";
    if (rule.missed >= 0)
      out << ", steps without gradients in " << plan.states[rule.missed]->fqn;
    out << "\n";
    printScalars(rule.scalars);
    for (const auto &call : rule.calls) {
      out << "  ";
      out << callText(*call);
      out << "\n";
    }
    out << "  results " << valuesText(rule.results) << "\n";
  }

  void printProgram(const ProgramT &program) {
    out << "\nprogram " << program.name << ": " << program.values.size()
        << " values, " << program.commands.size() << " commands";
    if (program.variant_of >= 0)
      out << ", a variant of " << plan.programs[program.variant_of]->name;
    if (!program.turn.empty())
      out << ", the turn of " << program.turn;
    if (program.next >= 0)
      out << ", then " << plan.programs[program.next]->name;
    out << "\n";
    for (const auto &input : program.inputs)
      out << "  input " << input->name << " = %" << input->value
          << (input->from_data ? "" : ", the same every step") << "\n";
    for (const auto &output : program.outputs)
      out << "  output " << output->name << " = %" << output->value << "\n";
    printMeanings(program);
    printScalars(program.scalars);
    for (size_t i = 0; i < program.values.size(); ++i)
      printValue(i, *program.values[i]);
    for (const auto &command : program.commands)
      printCommand(*command);
    for (uint32_t arena : {deviceArena, hostArena})
      printArenaMap(program, arena);
  }

  void printMeanings(const ProgramT &program) {
    if (program.meanings.empty())
      out << "  not compared with the sequential step: the plan does not say "
             "what it computes\n";
    size_t covered = 0;
    for (const auto &meaning : program.meanings)
      covered += meaning->uncovered.empty();
    if (covered)
      out << "  " << covered << " of " << program.meanings.size()
          << " outputs, buffers, gradients and updates are the sequential "
             "step's\n";
    for (const auto &meaning : program.meanings)
      if (!meaning->uncovered.empty())
        out << "  not covered: "
            << describe(plan, program, meaning->kind, meaning->index) << ": "
            << meaning->uncovered << "\n";
  }

  void printValue(size_t i, const ValueT &value) {
    out << "  %" << i << ": " << dtypeName(value.dtype) << " "
        << formatShape(value.shape);
    if (value.strides != rowMajorStrides(value.shape))
      out << " strides " << formatShape(value.strides);
    if (value.state >= 0)
      out << ", state " << plan.states[value.state]->fqn;
    else if (value.view_of >= 0)
      out << ", view of %" << value.view_of;
    else
      out << ", at " << placeText(*value.place);
    if (!value.name.empty())
      out << ", " << value.name;
    out << "\n";
  }

  /// The pieces stand below each other.
  void printCopy(const CopyT &copy) {
    out << "copy";
    for (const auto &piece : copy.pieces) {
      out << (copy.pieces.size() > 1 ? "\n       " : " ") << "%"
          << piece->destination << "[" << piece->destination_offset << "] = ";
      if (piece->source < 0)
        out << "zero";
      else
        out << "%" << piece->source << "[" << piece->source_offset << "]";
      out << ", " << piece->blocks << " x " << piece->block_bytes << " B";
      if (piece->owners > 1)
        out << ", a rank's own of " << piece->owners;
      if (piece->blocks > 1)
        out << ", strides " << piece->source_stride << " to "
            << piece->destination_stride;
      out << shardsText(piece->on.get());
    }
  }

  void printCommand(const CommandT &command) {
    out << "  " << command.stream << "| ";
    switch (command.operation.type) {
    case Operation::Aten:
      out << callText(*command.operation.AsAten());
      break;
    case Operation::Update: {
      const UpdateT &update = *command.operation.AsUpdate();
      out << "update " << plan.states[update.parameter]->fqn << " by "
          << plan.rules[update.rule]->name << "(%" << update.gradient;
      if (update.scale >= 0)
        out << " * %" << update.scale;
      for (int value : update.given)
        out << ", %" << value;
      out << ")";
      if (update.skip >= 0)
        out << " unless %" << update.skip;
      if (update.staged >= 0)
        out << " in %" << update.staged;
      break;
    }
    case Operation::Copy:
      printCopy(*command.operation.AsCopy());
      break;
    case Operation::Collective: {
      const CollectiveT &c = *command.operation.AsCollective();
      out << "%" << c.destination << " = " << collectiveName(c.kind)
          << (c.op == ReduceOp::Max ? " max" : "") << " %" << c.source
          << " over " << formatDims(plan, dimsOf(c));
      if (c.ranks)
        out << " among " << c.ranks;
      out << ", " << c.count << " " << dtypeName(c.dtype);
      if (c.unit >= 0)
        out << ", unit '" << plan.units[c.unit]->name << "'";
      if (c.region)
        out << ", " << nameOf(c.region);
      if (c.of_step)
        out << ", of the step itself";
      if (c.divisor != 1)
        out << ", divided by " << numberText(c.divisor);
      break;
    }
    case Operation::Record:
      out << "record event " << command.operation.AsRecord()->event;
      break;
    case Operation::Wait:
      out << "wait for event " << command.operation.AsWait()->event;
      break;
    case Operation::NONE:
      break;
    }
    if (!command.location.empty())
      out << "  // " << command.location;
    out << "\n";
  }

  /// Who uses which bytes of an arena behind the states, by offset; values at
  /// one offset share it, one after the other.
  void printArenaMap(const ProgramT &program, uint32_t arena) {
    std::vector<size_t> order;
    for (size_t i = 0; i < program.values.size(); ++i) {
      const ValueT &value = *program.values[i];
      if (value.view_of < 0 && value.part_of < 0 && value.state < 0 &&
          value.place->arena() == arena)
        order.push_back(i);
    }
    auto key = [&](size_t i) {
      const Place &place = *program.values[i]->place;
      return std::make_tuple(place.offset(), place.bytes(), i);
    };
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return key(a) < key(b); });
    if (arena != deviceArena && order.empty())
      return;
    out << "  " << arenaNames[arena] << " arena in " << program.name << "\n";
    for (size_t at = 0; at < order.size();) {
      const Place &place = *program.values[order[at]]->place;
      out << "    " << place.offset() << "+" << place.bytes() << ":";
      for (; at < order.size() &&
             samePlace(*program.values[order[at]]->place, place);
           ++at)
        out << " %" << order[at];
      out << "\n";
    }
  }

  const PlanT &plan;
  const std::string &digest;
  std::ostream &out;
};

} // namespace

void fsdp::plan::printPlan(const LoadedPlan &loaded, std::ostream &out) {
  Printer(loaded, out).print();
}
