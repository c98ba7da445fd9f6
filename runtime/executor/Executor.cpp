#include "executor/Executor.h"

#include "Error.h"
#include "executor/HostBackend.h"
#include "executor/LoadedProgram.h"
#include "executor/ProgramTensors.h"
#include "executor/ProgramTraffic.h"
#include "executor/Scalars.h"
#include "operators/Operators.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <cstring>

namespace fsdp {

struct Executor::Implementation {
  Implementation(const plan::PlanT &plan, Backend &backend,
                 const ExecutorOptions &options);

  /// Gradients are part of the plan; the kernels need no autograd around them.
  struct NoAutograd {
    at::AutoDispatchBelowADInplaceOrView below;
    at::AutoGradMode grad{false};
  };

  void placeStates();
  void prepareTransfers();
  void run(LoadedProgram &program, uint64_t step, uint64_t microBatch);
  void beginStep(LoadedProgram &program, uint64_t step, uint64_t microBatch);
  void runCommands(LoadedProgram &program);
  void runUpdate(LoadedProgram::Update &update);
  double squaredNormOf(LoadedProgram::Update &update);
  void launchCopy(unsigned stream, const LoadedProgram::Copy &copy);
  /// The host waits for what its next update reads.
  void awaitDevice() { streams->await(streams->mark()); }

  const plan::PlanT &plan;
  Backend &backend;
  Arenas arenas;
  Processor device;
  std::optional<Processor> host; // where it is not the device
  std::vector<at::Tensor> states;
  std::vector<LoadedProgram> programs;
  std::unique_ptr<Streams> streams;
  std::optional<ProgramTraffic> traffic;
  std::vector<double> scalars;
  bool gradientNorm = false;
  double squaredNorm = 0;
  Counters counters;
};

/// The streams and events that the plan's programs use at most.
static std::pair<unsigned, unsigned> countStreams(const plan::PlanT &plan) {
  unsigned streams = 1, events = 0;
  for (const auto &program : plan.programs) {
    events = std::max(events, program->events);
    for (const auto &command : program->commands)
      streams = std::max(streams, command->stream + 1);
  }
  return {streams, events};
}

Executor::Implementation::Implementation(const plan::PlanT &plan,
                                         Backend &backend,
                                         const ExecutorOptions &options)
    : plan(plan), backend(backend),
      arenas(plan, backend, options.poison ? poisonGuardBytes : 0),
      device(plan, backend.kernels(),
             SiteRandom(options.seed, backend.rank(), options.sequentialRandom,
                        backend.kernels()),
             [&](uint64_t bytes) { return backend.allocateScratch(bytes); }) {
  if (options.poison && !backend.isHost())
    throw Error("--poison writes into a plan's memory from the host; use it "
                "with a plan for device=cpu");
  registerOperators();
  NoAutograd guard;
  if (!backend.isHost())
    host.emplace(plan, hostKernels(),
                 SiteRandom(options.seed, backend.rank(),
                            options.sequentialRandom, hostKernels()),
                 allocateHostScratch);
  UseScratch use(device.scratch);
  placeStates();
  LoadContext context{
      plan, arenas, states, device, host ? *host : device, backend.rank()};
  programs.reserve(plan.programs.size());
  for (const auto &program : plan.programs) {
    programs.emplace_back(*program, context);
    if (options.poison)
      programs.back().poison = std::make_unique<Poison>(plan, *program, arenas);
  }
  prepareTransfers();
  auto [numStreams, numEvents] = countStreams(plan);
  streams = backend.makeStreams(numStreams, numEvents);
  traffic.emplace(backend, *streams);
}

void Executor::Implementation::placeStates() {
  for (const auto &state : plan.states) {
    at::Tensor &tensor = states.emplace_back();
    if (state->flat < 0)
      tensor = at::from_blob(arenas.address(*state->place, state->fqn),
                             state->local_shape, state->strides,
                             at::TensorOptions(toScalarType(state->dtype))
                                 .device(arenas.deviceOf(*state->place)));
    // As a step leaves it: adding to -0.0 changes no bit.
    if (state->role == plan::Role::Gradient)
      tensor.fill_(-0.0);
  }
}

/// In the order of the programs' commands, which is every rank's.
void Executor::Implementation::prepareTransfers() {
  for (const LoadedProgram &program : programs)
    for (const LoadedProgram::Collective &collective : program.collectives)
      backend.prepare(collective.transfer);
}

void Executor::Implementation::beginStep(LoadedProgram &program, uint64_t step,
                                         uint64_t microBatch) {
  StepContext context{step, learningRates(plan, step), [&](int state) {
                        return states.at(state).item<double>();
                      }};
  scalars = evaluateScalars(program.plan->scalars, context);
  for (Processor *processor : {&device, host ? &*host : nullptr}) {
    if (!processor)
      continue;
    for (UpdateRule &rule : processor->rules)
      rule.beginStep(context);
    processor->random.beginStep(step, microBatch);
  }
  squaredNorm = 0;
}

void Executor::Implementation::run(LoadedProgram &program, uint64_t step,
                                   uint64_t microBatch) {
  NoAutograd guard;
  UseScratch use(device.scratch);
  beginStep(program, step, microBatch);
  bool first = program.runs++ == 0;
  if (first)
    program.countIn(counters);
  counters.programRuns[program.plan->name] = program.runs;
  auto bytesOutside = [&] {
    return device.scratch.bytesOutside() + bytesTakenByHelpers();
  };
  uint64_t before = bytesOutside();
  streams->begin(program.plan->events);
  try {
    runCommands(program);
    streams->end();
    traffic->fetchOutputs(program);
  } catch (const std::exception &error) {
    streams->abandon(error.what());
    throw;
  }
  if (!first)
    counters.bytesAllocatedInSteps += bytesOutside() - before;
  device.scratch.grow();
  if (first)
    backend.kernels().releaseCached(); // what operators took to be learned
  if (host)
    host->scratch.grow();
  counters.scratchBytes = device.scratch.bytes();
  counters.communication = streams->times();
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
  std::optional<UseScratch> use;
  at::Tensor scale = update.scale;
  if (update.onHost) {
    use.emplace(update.processor->scratch);
    awaitDevice();
    if (scale.defined())
      scale = scale.cpu();
  }
  if (gradientNorm && update.inNorm)
    squaredNorm += squaredNormOf(update);
  if (update.skip.defined() && update.skip.item<double>() != 0)
    return;
  {
    OperatorMemory::Attention attention(update.memory);
    update.rule->apply(update.operands, scale);
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

void Executor::Implementation::launchCopy(unsigned stream,
                                          const LoadedProgram::Copy &copy) {
  streams->copy(stream, copy.pieces);
  counters.offloadBytes += copy.offloadBytes;
  counters.communicationBytesCopied += copy.bucketBytes;
}

Executor::Executor(const plan::PlanT &plan, Backend &backend,
                   const ExecutorOptions &options)
    : impl(std::make_unique<Implementation>(plan, backend, options)) {}

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

at::Tensor Executor::state(size_t i) { return impl->states.at(i); }

void Executor::setInput(int program, size_t input, const void *rowMajor) {
  Implementation::NoAutograd guard;
  impl->traffic->setInput(impl->programs.at(program), input, rowMajor);
}

std::vector<double> Executor::outputs(unsigned runsAgo) {
  return impl->traffic->outputs(runsAgo);
}

void Executor::setGradientNorm(bool enabled) { impl->gradientNorm = enabled; }
double Executor::squaredGradientNorm() const { return impl->squaredNorm; }
const Counters &Executor::counters() const { return impl->counters; }

} // namespace fsdp
