#include "executor/Executor.h"

#include "Error.h"
#include "executor/HostStreams.h"
#include "executor/LoadedProgram.h"
#include "executor/ProgramTensors.h"
#include "executor/Scalars.h"
#include "operators/Operators.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <cstring>

namespace fsdp {

struct Executor::Implementation {
  Implementation(const plan::PlanT &plan, Communicator &communicator,
                 const ExecutorOptions &options);

  /// Gradients are part of the plan; the kernels need no autograd around them.
  struct NoAutograd {
    at::AutoDispatchBelowADInplaceOrView below;
    at::AutoGradMode grad{false};
  };

  void placeStates();
  void run(LoadedProgram &program, uint64_t step, uint64_t microBatch);
  void runCommands(LoadedProgram &program);
  void runUpdate(LoadedProgram::Update &update);
  double squaredNormOf(LoadedProgram::Update &update);
  void launchCopy(unsigned stream, const LoadedProgram::Copy &copy);

  const plan::PlanT &plan;
  SiteRandom random;
  Arenas arenas;
  Scratch scratch;
  std::vector<at::Tensor> states;
  std::vector<UpdateRule> rules;
  std::vector<LoadedProgram> programs;
  std::unique_ptr<HostStreams> streams;
  std::vector<double> scalars;
  bool gradientNorm = false;
  double squaredNorm = 0;
  Counters counters;
};

Executor::Implementation::Implementation(const plan::PlanT &plan,
                                         Communicator &communicator,
                                         const ExecutorOptions &options)
    : plan(plan),
      random(options.seed, communicator.rank(), options.sequentialRandom),
      arenas(plan, communicator, options.poison ? poisonGuardBytes : 0),
      streams(options.hostStreams == HostStreamKind::Threads
                  ? makeThreadStreams(communicator)
                  : makeInlineStreams(communicator)) {
  registerOperators();
  NoAutograd guard;
  UseScratch use(scratch);
  placeStates();
  for (const auto &rule : plan.rules)
    rules.emplace_back(*rule, random);
  LoadContext context{
      plan, arenas, states, rules, random, scratch, communicator.rank()};
  programs.reserve(plan.programs.size());
  for (const auto &program : plan.programs) {
    programs.emplace_back(*program, context);
    if (options.poison)
      programs.back().poison = std::make_unique<Poison>(plan, *program, arenas);
  }
}

void Executor::Implementation::placeStates() {
  for (const auto &state : plan.states) {
    at::Tensor &tensor = states.emplace_back();
    if (state->flat < 0)
      tensor =
          at::from_blob(arenas.address(*state->place, state->fqn),
                        state->local_shape, state->strides,
                        at::TensorOptions().dtype(toScalarType(state->dtype)));
    // As a step leaves it: adding to -0.0 changes no bit.
    if (state->role == plan::Role::Gradient)
      tensor.fill_(-0.0);
  }
}

void Executor::Implementation::run(LoadedProgram &program, uint64_t step,
                                   uint64_t microBatch) {
  NoAutograd guard;
  UseScratch use(scratch);
  StepContext context{step, learningRates(plan, step), [&](int state) {
                        return states.at(state).item<double>();
                      }};
  scalars = evaluateScalars(program.plan->scalars, context);
  for (UpdateRule &rule : rules)
    rule.beginStep(context);
  random.beginStep(step, microBatch);
  squaredNorm = 0;
  bool first = program.runs++ == 0;
  if (first)
    program.countIn(counters);
  counters.programRuns[program.plan->name] = program.runs;
  auto bytesOutside = [&] {
    return scratch.bytesOutside() + bytesTakenByHelpers();
  };
  uint64_t before = bytesOutside();
  streams->begin(program.plan->events);
  try {
    runCommands(program);
    streams->drain();
  } catch (const std::exception &error) {
    streams->abandon(error.what());
    throw;
  }
  if (!first)
    counters.bytesAllocatedInSteps += bytesOutside() - before;
  scratch.grow();
  counters.scratchBytes = scratch.bytes();
  counters.communicationSeconds = streams->transferSeconds;
  counters.exposedSeconds = streams->exposedSeconds;
}

void Executor::Implementation::runCommands(LoadedProgram &program) {
  Poison *poison = program.poison.get();
  if (poison)
    poison->beginRun();
  for (size_t c = 0; c < program.steps.size(); ++c) {
    const LoadedProgram::Step &step = program.steps[c];
    if (poison)
      poison->before(c);
    switch (step.kind) {
    case plan::Operation::Aten:
      program.calls[step.index].run(scalars, counters);
      break;
    case plan::Operation::Update:
      runUpdate(program.updates[step.index]);
      break;
    case plan::Operation::Copy:
      launchCopy(step.stream, program.copies[step.index]);
      break;
    case plan::Operation::Collective: {
      const LoadedProgram::Collective &collective =
          program.collectives[step.index];
      streams->transfer(step.stream, collective.transfer);
      ++collective.count->calls;
      collective.count->bytes += collective.transfer.count *
                                 plan::dtypeBytes(collective.transfer.dtype);
      break;
    }
    case plan::Operation::Record:
      streams->record(step.stream, step.index);
      break;
    case plan::Operation::Wait:
      streams->wait(step.stream, step.index);
      break;
    case plan::Operation::NONE:
      break;
    }
    if (poison)
      poison->after(c);
  }
}

void Executor::Implementation::runUpdate(LoadedProgram::Update &update) {
  if (gradientNorm && update.inNorm)
    squaredNorm += squaredNormOf(update);
  if (update.skip.defined() && update.skip.item<double>() != 0)
    return;
  {
    OperatorMemory::Attention attention(update.memory);
    update.rule->apply(update.operands, update.scale);
  }
  std::vector<at::Tensor> none;
  update.memory.endRun(none);
}

double Executor::Implementation::squaredNormOf(LoadedProgram::Update &update) {
  std::vector<at::Tensor> norm;
  {
    OperatorMemory::Attention attention(update.normMemory);
    norm.push_back(update.operands[1].to(at::kDouble).norm());
  }
  double value = norm[0].item<double>();
  update.normMemory.endRun(norm);
  return value * value;
}

static void runCopy(const LoadedProgram::Copy &copy) {
  for (const LoadedProgram::Piece &piece : copy)
    for (uint64_t i = 0; i < piece.blocks; ++i) {
      char *to = piece.to + i * piece.toStride;
      if (piece.from)
        std::memcpy(to, piece.from + i * piece.fromStride, piece.blockBytes);
      else
        std::memset(to, 0, piece.blockBytes);
    }
}

void Executor::Implementation::launchCopy(unsigned stream,
                                          const LoadedProgram::Copy &copy) {
  streams->copy(stream, [&copy] { runCopy(copy); });
  for (const LoadedProgram::Piece &piece : copy) {
    if (piece.ofOffload)
      counters.offloadBytes += piece.blocks * piece.blockBytes;
    if (piece.ofBucket)
      counters.communicationBytesCopied += piece.blocks * piece.blockBytes;
  }
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

void Executor::run(int program, uint64_t step, uint64_t microBatch) {
  impl->run(impl->programs.at(program), step, microBatch);
}

void *Executor::stateData(size_t i) {
  const plan::StateT &state = *impl->plan.states.at(i);
  return impl->arenas.address(*state.place, state.fqn);
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
  return tensor.item().toDouble();
}

void Executor::setGradientNorm(bool enabled) { impl->gradientNorm = enabled; }
double Executor::squaredGradientNorm() const { return impl->squaredNorm; }
const Counters &Executor::counters() const { return impl->counters; }

} // namespace fsdp
