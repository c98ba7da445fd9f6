#include "executor/LoadedProgram.h"

#include "Error.h"
#include "executor/ProgramTensors.h"
#include "plan/Collectives.h"
#include "plan/Names.h"
#include "trace/CommandTexts.h"

#include <ATen/core/Tensor.h>
#include <algorithm>
#include <mutex>
#include <set>

namespace fsdp {

static bool overlap(const plan::Place &a, const plan::Place &b) {
  return a.arena() == b.arena() && a.offset() < b.offset() + b.bytes() &&
         b.offset() < a.offset() + a.bytes();
}

/// A text that lives as long as the process: another thread may tell of a
/// collective whose program is gone. Few are different.
static const char *keepName(const std::string &name) {
  static std::mutex mutex;
  static auto *names = new std::set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  return names->insert(name).first->c_str();
}

LoadedProgram::LoadedProgram(const plan::ProgramT &program,
                             const LoadContext &context)
    : plan(&program),
      tensors(placedTensors(context.plan, program, context.arenas)),
      numbers(context.numbers ? &context.numbers->newList(program.scalars)
                              : nullptr),
      buckets(program.values.size()),
      shard(plan::shardGroupOf(context.plan, context.rank)
                .indexOf(context.rank)) {
  for (const auto &command : program.commands)
    if (const auto *collective = command->operation.AsCollective())
      buckets.at(collective->source) = buckets.at(collective->destination) =
          true;
  for (size_t c = 0; c < program.commands.size(); ++c) {
    const plan::CommandT &command = *program.commands[c];
    const plan::OperationUnion &operation = command.operation;
    Step step;
    step.kind = operation.type;
    step.stream = command.stream;
    switch (operation.type) {
    case plan::Operation::Aten:
      step.index = calls.size();
      if (plan::runsOn(operation.AsAten()->on.get(), shard))
        load(*operation.AsAten(), c, context);
      if (calls.size() == step.index) // a view, or other ranks' call
        step.kind = plan::Operation::NONE;
      break;
    case plan::Operation::Update:
      step.index = updates.size();
      load(*operation.AsUpdate(), context);
      break;
    case plan::Operation::Copy:
      step.index = copies.size();
      load(*operation.AsCopy(), context);
      if (copies.back().pieces.empty())
        step.kind = plan::Operation::NONE;
      break;
    case plan::Operation::Collective:
      step.index = collectives.size();
      load(*operation.AsCollective(), command.location, context);
      break;
    case plan::Operation::Record:
      step.index = operation.AsRecord()->event;
      break;
    case plan::Operation::Wait:
      step.index = operation.AsWait()->event;
      break;
    case plan::Operation::NONE:
      break;
    }
    steps.push_back(step);
  }
  for (Collective &collective : collectives)
    collective.transfer.name = keepName(collective.name);
  if (&context.host != &context.device) {
    groupUpdates();
    groupCasts();
  }
}

/// Whether a launch that updates `first` may include `next` (canGroup()).
static bool canJoin(const LoadedProgram::Update &first,
                    const LoadedProgram::Update &next) {
  auto isFit = [](const LoadedProgram::Update &update) {
    return !update.onHost && !update.scale.defined() &&
           (!update.skip.defined() || update.rule->readsSkip()) &&
           update.rule->canGroup(update.operands);
  };
  return first.rule == next.rule && first.skip.is_same(next.skip) &&
         isFit(first) && isFit(next);
}

/// A device takes as long to launch the update of a small parameter as to do
/// it.
void LoadedProgram::groupUpdates() {
  Step *leader = nullptr;
  for (Step &step : steps) {
    if (step.kind != plan::Operation::Update) {
      leader = nullptr;
    } else if (leader && leader->stream == step.stream &&
               canJoin(updates[leader->index], updates[step.index])) {
      ++updates[leader->index].together;
      step.kind = plan::Operation::NONE;
    } else {
      leader = &step;
    }
  }
}

/// Casts that follow each other are one launch.
void LoadedProgram::groupCasts() {
  const Step *leader = nullptr; // of the last launch, while others may join it
  for (Step &step : steps) {
    if (step.kind == plan::Operation::NONE)
      continue;
    std::optional<Cast> cast;
    if (step.kind == plan::Operation::Aten)
      cast = calls[step.index].cast();
    if (!cast) {
      leader = nullptr;
    } else if (leader && leader->stream == step.stream &&
               casts.back().canJoin(*cast)) {
      casts.back().join(*cast);
      step.kind = plan::Operation::NONE;
    } else {
      step.isCasts = true;
      step.index = casts.size();
      casts.emplace_back(*cast);
      leader = &step;
    }
  }
}

void LoadedProgram::load(const plan::AtenT &aten, size_t command,
                         const LoadContext &context) {
  AtenOp op(aten, plan->commands[command]->location, command,
            context.device.random, numbers);
  op.bind(tensors);
  if (op.isView()) {
    std::vector<at::Tensor> results;
    op.run({}, results);
    for (size_t i = 0; i < results.size(); ++i)
      if (op.results()[i] >= 0)
        defineView(*plan, context.arenas, op.results()[i], results[i],
                   op.description(), tensors);
    return;
  }
  std::vector<OperatorCall::Output> outputs;
  for (size_t i = 0; i < op.results().size(); ++i) {
    int v = op.results()[i];
    if (v < 0)
      continue;
    const plan::ValueT &value = *plan->values.at(v);
    // A kernel may write its output before it has read all its operands.
    const plan::Place &place = placeOf(context.plan, value);
    std::vector<int> others = op.operands();
    for (size_t j = 0; j < i; ++j)
      others.push_back(op.results()[j]);
    bool apart = std::none_of(others.begin(), others.end(), [&](int other) {
      return other >= 0 &&
             overlap(place, placeOf(context.plan, *plan->values.at(other)));
    });
    outputs.push_back({i, value.name, tensors[v], apart ? place.bytes() : 0});
  }
  calls.emplace_back(std::move(op), std::move(outputs), context.device.scratch);
}

/// What lies from `begin` to before `end`, counted from `begin`.
static std::vector<ElementRange> cut(const std::vector<ElementRange> &ranges,
                                     int64_t begin, int64_t end) {
  std::vector<ElementRange> inside;
  for (const ElementRange &range : ranges)
    if (range.end > begin && range.begin < end)
      inside.push_back({std::max(range.begin, begin) - begin,
                        std::min(range.end, end) - begin});
  return inside;
}

void LoadedProgram::load(const plan::UpdateT &update,
                         const LoadContext &context) {
  const plan::StateT &parameter = *context.plan.states.at(update.parameter);
  plan::RankGroup shards = plan::shardGroupOf(context.plan, context.rank);
  std::vector<at::Tensor> operands = {update.staged < 0
                                          ? context.states.at(update.parameter)
                                          : tensors.at(update.staged),
                                      tensors.at(update.gradient)};
  for (uint32_t state : update.states)
    operands.push_back(context.states.at(state));
  for (int value : update.given)
    operands.push_back(tensors.at(value));
  int64_t first = 0; // of the elements that this rank holds
  if (update.end) {
    // What this rank holds of [begin, end), in its own elements.
    uint64_t held = operands[0].numel();
    uint64_t before =
        parameter.shard_dim < 0 ? 0 : shards.indexOf(context.rank) * held;
    uint64_t begin = std::max<uint64_t>(update.begin, before);
    uint64_t end = std::min<uint64_t>(update.end, before + held);
    first = begin < end ? begin - before : 0;
    for (at::Tensor &operand : operands)
      operand =
          operand.view({-1}).narrow(0, first, begin < end ? end - begin : 0);
  }
  // Replicas hold the same gradients; the first of them counts.
  bool counts = parameter.shard_dim < 0 ? context.rank == 0 : shards.first == 0;
  bool inNorm = parameter.role == plan::Role::Parameter && counts;
  auto scalar = [&](int v) { return v < 0 ? at::Tensor() : tensors.at(v); };
  const plan::Place &written =
      update.staged < 0
          ? *parameter.place
          : placeOf(context.plan, *plan->values.at(update.staged));
  bool onHost =
      &context.host != &context.device && written.arena() == plan::hostArena;
  Processor &processor = onHost ? context.host : context.device;
  UpdateRule &rule = processor.rules.at(update.rule);
  std::vector<ElementRange> leftover;
  if (rule.readsLeftover() && parameter.role == plan::Role::Parameter)
    leftover = cut(leftoverElements(context.plan, update.parameter,
                                    context.rank, rule.elementsAtATime()),
                   first, first + operands[0].numel());
  updates.push_back({onHost, &processor, &rule, std::move(operands),
                     std::move(leftover), scalar(update.scale),
                     scalar(update.skip), OperatorMemory(processor.scratch),
                     OperatorMemory(processor.scratch), inNorm,
                     parameter.unit < 0 ? context.plan.units.size()
                                        : size_t(parameter.unit)});
}

void LoadedProgram::load(const plan::CopyT &copy, const LoadContext &context) {
  auto address = [&](int v) {
    const plan::ValueT &value = *plan->values.at(v);
    return context.arenas.address(placeOf(context.plan, value), value.name);
  };
  auto arena = [&](int v) {
    return placeOf(context.plan, *plan->values.at(v)).arena();
  };
  Copy &loaded = copies.emplace_back();
  for (const auto &piece : copy.pieces) {
    if (!plan::runsOn(piece->on.get(), shard))
      continue;
    int from = piece->source, to = piece->destination;
    uint64_t offset = piece->source_offset;
    if (piece->owners > 1)
      offset += piece->block_bytes *
                plan::groupOf(context.plan,
                              dimsOf(context.plan, plan::AxisRole::Shard),
                              context.rank, piece->owners)
                    .indexOf(context.rank);
    loaded.pieces.push_back({address(to) + piece->destination_offset,
                             from < 0 ? nullptr : address(from) + offset,
                             piece->block_bytes, piece->blocks,
                             piece->destination_stride, piece->source_stride});
    uint64_t bytes = piece->blocks * piece->block_bytes;
    if (from >= 0 && arena(from) != arena(to))
      loaded.offloadBytes += bytes;
    else if (from >= 0 && (buckets[to] || buckets[from]))
      loaded.bucketBytes += bytes;
  }
}

void LoadedProgram::load(const plan::CollectiveT &collective,
                         const std::string &where, const LoadContext &context) {
  auto address = [&](uint32_t v) {
    const plan::ValueT &value = *plan->values.at(v);
    return context.arenas.address(placeOf(context.plan, value), value.name);
  };
  Transfer transfer;
  transfer.kind = collective.kind;
  transfer.source = address(collective.source);
  transfer.destination = address(collective.destination);
  transfer.count = collective.count;
  transfer.dtype = collective.dtype;
  transfer.divisor = collective.divisor;
  transfer.channel = collective.channel;
  transfer.group = plan::groupOf(context.plan, collective, context.rank);
  transfer.mapped = collective.mapped && context.arenas.windowIsMapped();
  transfer.op = collective.op;
  collectives.push_back(
      {transfer, plan::infoOf(collective.kind).name,
       plan::nameOf(collective.region),
       trace::collectiveName(context.plan, *plan, collective, where), nullptr});
}

void LoadedProgram::countRun(Counters &counters) {
  counters.programRuns[plan->name] = ++runs;
  for (Collective &collective : collectives) {
    if (!collective.count)
      collective.count =
          &counters
               .collectives[{plan->name, collective.kind, collective.region}];
    ++collective.count->calls;
    collective.count->bytes +=
        collective.transfer.count * plan::dtypeBytes(collective.transfer.dtype);
  }
  for (const Copy &copy : copies) {
    counters.offloadBytes += copy.offloadBytes;
    counters.communicationBytesCopied += copy.bucketBytes;
  }
}

std::string LoadedProgram::whyNotCaptured() const {
  for (const OperatorCall &call : calls)
    if (const char *read = call.hostRead())
      return call.description() + " reads " + read + " on the host";
    else if (call.keepsMemory())
      return call.description() + " keeps memory from run to run";
  for (const Update &update : updates)
    if (update.onHost)
      return "it updates offloaded states on the host";
    else if (update.skip.defined() && !update.rule->readsSkip())
      return "the host reads whether to skip the update (a gradient scaler)";
    else if (update.memory.keeps())
      return "an update keeps memory from run to run";
  return "";
}

} // namespace fsdp
