#include "executor/Executor.h"

#include "Error.h"
#include "device/TensorAt.h"
#include "executor/GraphCapture.h"
#include "executor/HostBackend.h"
#include "executor/LoadedProgram.h"
#include "executor/ProgramTensors.h"
#include "executor/ProgramTraffic.h"
#include "executor/Scalars.h"
#include "executor/Updates.h"
#include "operators/FirstCalls.h"
#include "operators/Operators.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <cmath>
#include <exception>

namespace fsdp {

struct Executor::Implementation {
  Implementation(const plan::PlanT &plan, Backend &backend,
                 const ExecutorOptions &options);
  /// After an error what is launched may wait for a rank that is gone, and
  /// whatever is freed here would wait for that.
  ~Implementation() {
    if (streams && !backend.isHost() && std::uncaught_exceptions())
      streams->abandon("");
  }

  /// Gradients are part of the plan; the kernels need no autograd around them.
  struct NoAutograd {
    at::AutoDispatchBelowADInplaceOrView below;
    at::AutoGradMode grad{false};
  };

  void prepareTransfers();
  void run(LoadedProgram &program, uint64_t step, uint64_t microBatch);
  void beginStep(LoadedProgram &program, uint64_t step, uint64_t microBatch);
  void runCommands(LoadedProgram &program);
  void runCommand(LoadedProgram &program, const LoadedProgram::Step &step);
  void runRecorded(LoadedProgram &program, size_t command);
  void launch(LoadedProgram &program);
  void decideOnGraph(LoadedProgram &program);
  /// Norms and times are taken in the middle of runs, which are no graph then.
  bool looksInside() const { return updates.hasGradientNorm() || recorder; }
  void runCall(const LoadedProgram &program, OperatorCall &call);
  uint32_t numberOf(const LoadedProgram &program) const {
    return static_cast<uint32_t>(&program - programs.data());
  }

  /// Runs of a program before it is captured.
  static constexpr uint64_t warmUps = 2;

  const plan::PlanT &plan;
  Backend &backend;
  const ExecutorOptions options;
  Arenas arenas;
  std::vector<at::Tensor> states;
  std::unique_ptr<StepNumbers> numbers; // where the host is not the device
  Processor device;
  std::optional<Processor> host; // where it is not the device
  std::vector<LoadedProgram> programs;
  std::unique_ptr<Streams> streams;
  std::optional<ProgramTraffic> traffic;
  std::vector<double> scalars;
  std::vector<double> givenRates; // by parameter group; none: the plan's
  Updates updates;
  trace::Recorder *recorder = nullptr;
  trace::LastCommands lastCommands;
  uint64_t step = 0; // that runs
  Counters counters;
};

/// Tensors at the states' places.
static std::vector<at::Tensor> placedStates(const plan::PlanT &plan,
                                            const Arenas &arenas) {
  std::vector<at::Tensor> states;
  for (const auto &state : plan.states) {
    at::Tensor &tensor = states.emplace_back();
    if (state->flat < 0)
      tensor =
          tensorAt(arenas.address(*state->place, state->fqn),
                   state->local_shape, state->strides,
                   toScalarType(state->dtype), arenas.deviceOf(*state->place));
    // As a step leaves it: adding to -0.0 changes no bit.
    if (state->role == plan::Role::Gradient)
      tensor.fill_(-0.0);
  }
  return states;
}

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
    : plan(plan), backend(backend), options(options),
      arenas(plan, backend, options.poison ? poisonGuardBytes : 0),
      states(placedStates(plan, arenas)),
      numbers(backend.isHost()
                  ? nullptr
                  : std::make_unique<StepNumbers>(plan, states, backend)),
      device(
          plan, backend.kernels(),
          SiteRandom(options.seed, backend.rank(), options.sequentialRandom,
                     backend.kernels()),
          [&](uint64_t bytes) { return backend.allocateScratch(bytes); },
          numbers.get()),
      updates(plan.units.size(), /*ownMemory=*/numbers != nullptr) {
  registerOperators();
  makeFirstCalls();
  NoAutograd guard;
  if (!backend.isHost())
    host.emplace(plan, hostKernels(),
                 SiteRandom(options.seed, backend.rank(),
                            options.sequentialRandom, hostKernels()),
                 allocateHostScratch, nullptr);
  UseScratch use(device.scratch);
  LoadContext context{
      plan,          arenas,        states, device, host ? *host : device,
      numbers.get(), backend.rank()};
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

/// In the order of the programs' commands, which is every rank's.
void Executor::Implementation::prepareTransfers() {
  for (const LoadedProgram &program : programs)
    for (const LoadedProgram::Collective &collective : program.collectives)
      backend.prepare(collective.transfer);
}

void Executor::Implementation::beginStep(LoadedProgram &program, uint64_t step,
                                         uint64_t microBatch) {
  // A device's states are known there alone, and its scalars with them.
  StepContext context{step, hyperparameters(plan, step), [&](int state) {
                        return numbers ? std::nan("")
                                       : states.at(state).item<double>();
                      }};
  context.rank = backend.rank();
  context.before = [&](uint64_t earlier) {
    std::vector<double> values = hyperparameters(plan, earlier);
    if (!givenRates.empty())
      replaceLearningRates(plan, std::vector(givenRates.size(), std::nan("")),
                           values);
    return values;
  };
  if (!givenRates.empty())
    replaceLearningRates(plan, givenRates, context.hyperparameters);
  this->step = step;
  scalars = evaluateScalars(program.plan->scalars, context);
  if (program.numbers)
    program.numbers->set(scalars);
  bool hasUpdates = !program.updates.empty();
  device.beginStep(context, microBatch, hasUpdates);
  if (host)
    host->beginStep(context, microBatch, hasUpdates);
  updates.beginRun();
}

void Executor::Implementation::run(LoadedProgram &program, uint64_t step,
                                   uint64_t microBatch) {
  NoAutograd guard;
  UseScratch use(device.scratch);
  beginStep(program, step, microBatch);
  auto bytesOutside = [&] {
    return device.scratch.bytesOutside() + bytesTakenByHelpers();
  };
  uint64_t before = bytesOutside();
  if (recorder)
    recorder->beginRun(numberOf(program), step, microBatch);
  try {
    launch(program);
    traffic->fetchOutputs(program);
  } catch (const PeerFailure &failure) {
    streams->abandon(failure.what());
    throw;
  } catch (const std::exception &error) {
    streams->abandon("rank " + std::to_string(backend.rank()) +
                     " failed: " + error.what());
    throw;
  }
  bool first = program.runs == 0;
  program.countRun(counters);
  if (!first)
    counters.bytesAllocatedInSteps += bytesOutside() - before;
  device.scratch.grow();
  if (first) {
    backend.kernels().releaseCached(); // what operators took to be learned
    counters.keptBytes = backend.kernels().keptBytes();
  }
  if (host)
    host->scratch.grow();
  counters.scratchBytes = device.scratch.bytes();
  counters.communication = streams->times();
}

/// In its first runs a program learns what its operators allocate, and gets the
/// memory for it; then it is captured, or people are told why not.
void Executor::Implementation::decideOnGraph(LoadedProgram &program) {
  if (!options.graph || program.decided || program.runs < warmUps ||
      looksInside())
    return;
  program.decided = true;
  GraphCapture graphs(plan, backend, device, numbers.get());
  std::string reason = graphs.capture(program, [&] { runCommands(program); });
  if (!reason.empty() && options.note)
    options.note("program '" + program.plan->name +
                 "' runs without a CUDA graph: " + reason);
}

void Executor::Implementation::launch(LoadedProgram &program) {
  decideOnGraph(program);
  if (numbers) {
    device.random.setSeeds(*numbers);
    numbers->send(*streams);
  }
  if (program.graph && !looksInside())
    return program.graph->launch();
  runCommands(program);
}

/// Tells of a call, in the program's second run, that has waited for the
/// device: it does in every step.
void Executor::Implementation::runCall(const LoadedProgram &program,
                                       OperatorCall &call) {
  bool watches = program.runs == 1 && options.note;
  uint64_t waits = watches ? backend.kernels().waits() : 0;
  call.run(scalars, counters);
  if (watches && backend.kernels().waits() != waits)
    options.note(call.description() +
                 " makes the host wait for the GPU in each step");
}

void Executor::Implementation::runCommands(LoadedProgram &program) {
  Poison *poison = program.poison.get();
  uint32_t number = numberOf(program);
  streams->begin(program.plan->events);
  if (poison)
    poison->beginRun();
  for (size_t c = 0; c < program.steps.size(); ++c) {
    const LoadedProgram::Step &command = program.steps[c];
    if (command.kind != plan::Operation::NONE &&
        command.kind != plan::Operation::Record)
      lastCommands.add(command.stream, {number, static_cast<uint32_t>(c), step,
                                        trace::Clock::now()});
    if (poison)
      poison->before(c);
    if (recorder)
      runRecorded(program, c);
    else
      runCommand(program, command);
    if (poison)
      poison->after(c);
  }
  if (recorder)
    recorder->comeTo(static_cast<uint32_t>(program.steps.size()));
  streams->end();
  if (recorder)
    recorder->endRun();
}

void Executor::Implementation::runCommand(LoadedProgram &program,
                                          const LoadedProgram::Step &step) {
  switch (step.kind) {
  case plan::Operation::Aten:
    if (step.isCasts)
      program.casts[step.index].run();
    else
      runCall(program, program.calls[step.index]);
    break;
  case plan::Operation::Update:
    updates.run(program, step.index, *streams);
    break;
  case plan::Operation::Copy:
    streams->copy(step.stream, program.copies[step.index].pieces);
    break;
  case plan::Operation::Collective:
    streams->transfer(step.stream, program.collectives[step.index].transfer,
                      program.collectives[step.index].name);
    break;
  case plan::Operation::Record:
    streams->record(step.stream, step.index);
    break;
  case plan::Operation::Wait:
    streams->wait(step.stream, step.index);
    break;
  case plan::Operation::NONE:
    break;
  }
}

/// Streams know of what is launched on them, but not of kernels.
void Executor::Implementation::runRecorded(LoadedProgram &program,
                                           size_t command) {
  const LoadedProgram::Step &step = program.steps[command];
  recorder->comeTo(static_cast<uint32_t>(command));
  bool launchesKernels = step.kind == plan::Operation::Aten ||
                         step.kind == plan::Operation::Update;
  if (launchesKernels)
    streams->runRecorded([&] { runCommand(program, step); });
  else
    runCommand(program, step);
}

Executor::Executor(const plan::PlanT &plan, Backend &backend,
                   const ExecutorOptions &options)
    : impl(std::make_unique<Implementation>(plan, backend, options)) {}

Executor::~Executor() = default;

void Executor::run(int program, uint64_t step, uint64_t microBatch) {
  impl->run(impl->programs.at(program), step, microBatch);
}

at::Tensor Executor::state(size_t i) { return impl->states.at(i); }

void Executor::setInput(int program, size_t input, const void *rowMajor,
                        bool onDevice) {
  Implementation::NoAutograd guard;
  LoadedProgram &of = impl->programs.at(program);
  if (onDevice)
    impl->traffic->setInputFromDevice(of, input, rowMajor);
  else
    impl->traffic->setInput(of, input, rowMajor);
}

char *Executor::inputMemory(int program, size_t input) const {
  return impl->traffic->inputMemory(impl->programs.at(program), input);
}

std::vector<double> Executor::outputs(unsigned runsAgo) {
  return impl->traffic->outputs(runsAgo);
}

std::vector<at::Tensor> Executor::tensorOutputs(int program) {
  Implementation::NoAutograd guard;
  return impl->traffic->tensorOutputs(impl->programs.at(program));
}

void Executor::setLearningRates(std::vector<double> rates) {
  impl->givenRates = std::move(rates);
}

void Executor::setGradientNorm(bool enabled) {
  impl->updates.setGradientNorm(enabled);
}
double Executor::squaredGradientNorm() const {
  return impl->updates.squaredNorm();
}
const std::vector<double> &Executor::squaredGradientNorms() const {
  return impl->updates.squaredNorms();
}
void Executor::setRecorder(trace::Recorder *recorder) {
  impl->streams->setRecorder(recorder);
  impl->recorder = recorder;
}
const Counters &Executor::counters() const { return impl->counters; }
const trace::LastCommands &Executor::lastCommands() const {
  return impl->lastCommands;
}

} // namespace fsdp
