#include "executor/Executor.h"

#include "Error.h"
#include "executor/Poison.h"
#include "executor/ProgramTensors.h"
#include "executor/Scalars.h"
#include "executor/UpdateRule.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <chrono>
#include <cstring>

namespace fsdp {

namespace {

/// A program with its tensors made and its operators found.
struct LoadedProgram {
  const plan::ProgramT *plan;
  std::vector<at::Tensor> tensors;           // by value
  std::vector<std::unique_ptr<AtenOp>> aten; // by command; null: another kind
  std::unique_ptr<Poison> poison;
};

} // namespace

struct Executor::Implementation {
  Implementation(const plan::PlanT &plan, Communicator &communicator,
                 const ExecutorOptions &options)
      : plan(plan), communicator(communicator),
        random(options.seed, communicator.rank(), options.sequentialRandom) {
    NoAutograd guard;
    for (const auto &arena : plan.arenas)
      arenas.emplace_back(arena->bytes, options.poison ? poisonGuardBytes : 0);
    placeStates();
    for (const auto &rule : plan.rules)
      rules.emplace_back(*rule, random);
    for (const auto &program : plan.programs)
      load(*program, options.poison);
  }

  /// Gradients are part of the plan; the kernels need no autograd around them.
  struct NoAutograd {
    at::AutoDispatchBelowADInplaceOrView below;
    at::AutoGradMode grad{false};
  };

  void load(const plan::ProgramT &program, bool poison);
  void run(LoadedProgram &program, uint64_t step);
  void runAten(LoadedProgram &program, AtenOp &op);
  void runUpdate(LoadedProgram &program, const plan::UpdateT &update);
  void runCopy(LoadedProgram &program, const plan::CopyT &copy);
  void runCollective(LoadedProgram &program,
                     const plan::CollectiveT &collective);
  char *place(LoadedProgram &program, int value);
  void placeStates();

  const plan::PlanT &plan;
  Communicator &communicator;
  SiteRandom random;
  std::vector<HostMemory> arenas;
  std::vector<at::Tensor> states;
  std::vector<UpdateRule> rules;
  std::vector<LoadedProgram> programs;
  std::vector<double> scalars;
  std::vector<at::Tensor> results;
  bool gradientNorm = false;
  double squaredNorm = 0;
  Counters counters;
};

void Executor::Implementation::load(const plan::ProgramT &program,
                                    bool poison) {
  LoadedProgram &loaded = programs.emplace_back();
  loaded.plan = &program;
  loaded.tensors = placedTensors(plan, program, arenas);
  for (size_t c = 0; c < program.commands.size(); ++c) {
    const plan::CommandT &command = *program.commands[c];
    auto &op = loaded.aten.emplace_back();
    const auto *aten = command.operation.AsAten();
    if (!aten)
      continue;
    op = std::make_unique<AtenOp>(*aten, command.location, c, random);
    if (op->isView()) {
      results.clear();
      op->run(loaded.tensors, {}, results);
      for (size_t i = 0; i < results.size(); ++i)
        if (op->results()[i] >= 0)
          defineView(program, arenas, op->results()[i], results[i],
                     op->description(), loaded.tensors);
      continue;
    }
    for (size_t i = 0; i < op->results().size(); ++i) {
      int v = op->results()[i];
      if (v < 0 || loaded.tensors.at(v).defined())
        continue;
      int source = op->aliasedValue(i);
      if (source < 0)
        throw Error(op->description() + ": its result " +
                    program.values.at(v)->name +
                    " is a view in the plan, but not by the operator's schema; "
                    "lower the step again");
      defineView(program, arenas, v, loaded.tensors.at(source),
                 op->description(), loaded.tensors);
    }
  }
  results.clear();
  if (poison)
    loaded.poison = std::make_unique<Poison>(plan, program, arenas);
}

void Executor::Implementation::run(LoadedProgram &program, uint64_t step) {
  NoAutograd guard;
  std::vector<double> rates = learningRates(plan, step);
  scalars = evaluateScalars(program.plan->scalars, step, rates);
  for (UpdateRule &rule : rules)
    rule.beginStep(step, rates);
  random.beginStep(step);
  squaredNorm = 0;
  ++counters.programRuns[program.plan->name];
  if (program.poison)
    program.poison->beginRun();
  for (size_t c = 0; c < program.aten.size(); ++c) {
    const plan::OperationUnion &operation =
        program.plan->commands[c]->operation;
    if (program.poison)
      program.poison->before(c);
    switch (operation.type) {
    case plan::Operation::Aten:
      if (!program.aten[c]->isView())
        runAten(program, *program.aten[c]);
      break;
    case plan::Operation::Update:
      runUpdate(program, *operation.AsUpdate());
      break;
    case plan::Operation::Copy:
      runCopy(program, *operation.AsCopy());
      break;
    case plan::Operation::Collective:
      runCollective(program, *operation.AsCollective());
      break;
    // The host's streams run inline, in the order of the commands, in which a
    // record stands before its waits.
    case plan::Operation::Record:
    case plan::Operation::Wait:
    case plan::Operation::NONE:
      break;
    }
    if (program.poison)
      program.poison->after(c);
  }
}

void Executor::Implementation::runAten(LoadedProgram &program, AtenOp &op) {
  results.clear();
  op.run(program.tensors, scalars, results);
  for (size_t i = 0; i < results.size(); ++i) {
    int v = op.results()[i];
    if (v < 0)
      continue;
    const at::Tensor &result = results[i], &planned = program.tensors[v];
    const std::string &name = program.plan->values[v]->name;
    if (!result.defined())
      throw Error(op.description() + ": gave no tensor for value " + name +
                  ", which the plan expects; export again");
    if (result.sizes() != planned.sizes() ||
        result.scalar_type() != planned.scalar_type())
      throw Error(op.description() + ": gave " + typeOf(result) +
                  " for value " + name + ", the plan says " + typeOf(planned) +
                  "; export again");
    // Zeros that PyTorch does not store have no data: a sign's gradient.
    if (result._is_zerotensor()) {
      planned.zero_();
      continue;
    }
    if (result.const_data_ptr() == planned.const_data_ptr() &&
        result.strides() == planned.strides())
      continue;
    ++counters.outputsCopied;
    counters.outputBytesCopied += result.nbytes();
    if (result.strides() == planned.strides() &&
        result.is_non_overlapping_and_dense())
      std::memcpy(planned.data_ptr(), result.const_data_ptr(), result.nbytes());
    else
      planned.copy_(result);
  }
  results.clear();
}

void Executor::Implementation::placeStates() {
  for (const auto &state : plan.states)
    states.push_back(at::from_blob(
        addressOf(arenas, *state->place, state->fqn), state->local_shape,
        state->strides, at::TensorOptions().dtype(toScalarType(state->dtype))));
}

void Executor::Implementation::runUpdate(LoadedProgram &program,
                                         const plan::UpdateT &update) {
  const at::Tensor &gradient = program.tensors[update.gradient];
  if (gradientNorm && (plan.states[update.parameter]->shard_dim >= 0 ||
                       communicator.rank() == 0)) {
    double norm = gradient.to(at::kDouble).norm().item<double>();
    squaredNorm += norm * norm;
  }
  std::vector<at::Tensor> operands = {states.at(update.parameter), gradient};
  for (uint32_t state : update.states)
    operands.push_back(states.at(state));
  rules.at(update.rule).apply(operands);
}

char *Executor::Implementation::place(LoadedProgram &program, int v) {
  const plan::ValueT &value = *program.plan->values.at(v);
  return addressOf(arenas,
                   value.state >= 0 ? *plan.states.at(value.state)->place
                                    : *value.place,
                   value.name);
}

void Executor::Implementation::runCopy(LoadedProgram &program,
                                       const plan::CopyT &copy) {
  char *to = place(program, copy.destination) + copy.destination_offset;
  const char *from = copy.source < 0
                         ? nullptr
                         : place(program, copy.source) + copy.source_offset;
  for (uint64_t i = 0; i < copy.blocks; ++i) {
    if (from)
      std::memmove(to + i * copy.destination_stride,
                   from + i * copy.source_stride, copy.block_bytes);
    else
      std::memset(to + i * copy.destination_stride, 0, copy.block_bytes);
  }
}

void Executor::Implementation::runCollective(
    LoadedProgram &program, const plan::CollectiveT &collective) {
  const char *kind = nullptr;
  const void *from = place(program, collective.source);
  void *to = place(program, collective.destination);
  switch (collective.kind) {
  case plan::CollectiveKind::AllGather:
    kind = "all-gather";
    break;
  case plan::CollectiveKind::ReduceScatter:
    kind = "reduce-scatter";
    break;
  case plan::CollectiveKind::AllReduce:
    kind = "all-reduce";
    break;
  }
  auto begin = std::chrono::steady_clock::now();
  communicator.finish(communicator.start(
      {collective.kind, from, to, collective.count, collective.dtype,
       collective.divisor, collective.channel, collective.mapped}));
  counters.communicationSeconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  Counters::Collective &count =
      counters.collectives[{program.plan->name, kind, collective.region}];
  ++count.calls;
  count.bytes += collective.count * plan::dtypeBytes(collective.dtype);
}

Executor::Executor(const plan::PlanT &plan, Communicator &communicator,
                   const ExecutorOptions &options)
    : impl(std::make_unique<Implementation>(plan, communicator, options)) {}

Executor::~Executor() = default;

int Executor::program(const std::string &name) const {
  for (size_t i = 0; i < impl->programs.size(); ++i)
    if (impl->programs[i].plan->name == name)
      return static_cast<int>(i);
  return -1;
}

void Executor::run(int program, uint64_t step) {
  impl->run(impl->programs.at(program), step);
}

void *Executor::stateData(size_t i) {
  const plan::StateT &state = *impl->plan.states.at(i);
  return addressOf(impl->arenas, *state.place, state.fqn);
}

void Executor::setInput(int program, size_t input, const void *rowMajor) {
  LoadedProgram &loaded = impl->programs.at(program);
  at::Tensor &planned = loaded.tensors[loaded.plan->inputs.at(input)->value];
  if (planned.is_contiguous()) {
    std::memcpy(planned.data_ptr(), rowMajor, planned.nbytes());
    return;
  }
  Implementation::NoAutograd guard;
  planned.copy_(at::from_blob(const_cast<void *>(rowMajor), planned.sizes(),
                              planned.options()));
}

double Executor::output(int program, size_t output) const {
  const LoadedProgram &loaded = impl->programs.at(program);
  const auto &named = *loaded.plan->outputs.at(output);
  const at::Tensor &tensor = loaded.tensors[named.value];
  if (tensor.numel() != 1)
    throw Error("output " + named.name +
                " is not a scalar; return its mean or sum");
  return tensor.to(at::kDouble).item<double>();
}

void Executor::setGradientNorm(bool enabled) { impl->gradientNorm = enabled; }
double Executor::squaredGradientNorm() const { return impl->squaredNorm; }
const Counters &Executor::counters() const { return impl->counters; }

} // namespace fsdp
