// How a session begins and ends.
#include "session/SessionCalls.h"

#include "operators/RunnablePlan.h"
#include "plan/ProgramOutputs.h"

namespace fsdp {

/// A plan that this process can run.
static plan::LoadedPlan readOwnPlan(const std::string &path) {
  plan::LoadedPlan loaded = readRunnablePlan(path);
  requirePrograms(*loaded.plan);
  return loaded;
}

/// What would part the ranks if it differed.
static std::string agreementOf(const RunOptions &run, const JoinOptions &join) {
  return agreementOf(run) + " comm=" + std::to_string(int(join.transport));
}

static JoinedRanks joinRanks(const plan::LoadedPlan &loaded,
                             const RunOptions &run, const JoinOptions &join) {
  beforeJoining(join, [&] {
    checkFlags(loaded.plan->device,
               {transportFlag("comm=", join.transport),
                {"cuda_graph=True", run.graph, plan::DeviceKind::Cuda}});
  });
  return joinRanks(loaded, join, agreementOf(run, join));
}

/// Nobody waits for a rank that cannot.
static OpenedBackend openBackend(const plan::PlanT &plan,
                                 const JoinedRanks &joined) {
  Communicator &ranks = *joined.connection.communicator;
  try {
    return openBackend(plan, ranks, {}, joined.transports, joined.place);
  } catch (...) {
    ranks.abort(describeCurrentError().message);
    throw;
  }
}

static const plan::ProgramT &programOf(const plan::PlanT &plan,
                                       const char *name) {
  return *plan.programs.at(plan::findProgram(plan, name));
}

Session::Session(const std::string &planPath, RunOptions run,
                 const JoinOptions &join)
    : loaded(beforeJoining(join, [&] { return readOwnPlan(planPath); })),
      options(std::move(run)), joined(joinRanks(loaded, options, join)),
      opened(openBackend(plan(), joined)),
      stepNames(plan::namesOfStep(
          plan(), plan::findProgram(plan(), plan::stepProgramName))),
      stepLosses(plan::lossesOfStep(
          plan(), plan::findProgram(plan(), plan::stepProgramName))),
      stepInputs(plan(), plan::stepProgramName, plan().micro_batches,
                 device()) {
  if (plan::findProgram(plan(), plan::evalProgramName) >= 0)
    evalInputs.emplace(plan(), plan::evalProgramName, 1, device());
}

std::shared_ptr<Session> Session::open(const std::string &planPath,
                                       RunOptions run,
                                       const JoinOptions &join) {
  if (!run.checkpoints.resume.empty())
    requireNoStream(run, "resuming");
  std::shared_ptr<Session> session(new Session(planPath, std::move(run), join));
  session->guarded([&] { session->load(); });
  return session;
}

Session::~Session() { leave("it ended the session"); }

void Session::load() {
  nonFinite.emplace(plan(), options, rank(), "non_finite=");
  if (options.nonFinite == NonFinite::Stop)
    decisions.emplace(ranks(), /*always=*/true);
  from.emplace(options.checkpoints, ranks());
  state.emplace(plan(), options, *from, ranks(), *opened.backend,
                [this](const std::string &note) { news.push_back(note); });
  said = state->notes;
  said.insert(said.end(), from->notes().begin(), from->notes().end());
  if (*from) {
    const checkpoint::RunPosition &then = from->position();
    done = then.step;
    samples = then.epoch
                  ? done * samplesOf(programOf(plan(), plan::stepProgramName))
                  : then.samplesInEpoch;
    said.push_back("resumed after step " + std::to_string(done) + " from " +
                   from->folder());
  }
  nonFinite->begin(*from ? &from->position() : nullptr, state->executor);
  runner.emplace(
      plan(), state->executor, state->repeated,
      [this](uint64_t) { return stepInputs.agree(ranks()); },
      [this](uint64_t, uint64_t microBatch, int program) {
        stepInputs.set(microBatch, program, state->executor);
      },
      /*runsAhead=*/0,
      [this](const FinishedStep &ended) {
        static_cast<FinishedStep &>(lastStep.emplace()) = ended;
      });
  ranks().barrier();
}

/// Nobody waits for a rank in vain.
void Session::fail(const std::string &reason, bool isOthers) {
  {
    std::lock_guard<std::mutex> lock(ending);
    if (!ended.empty())
      return;
    ended = reason;
  }
  if (size() == 1)
    return;
  isOthers ? ranks().leave(reason) : ranks().abort(reason);
}

void Session::leave(const std::string &reason) { fail(reason); }

void Session::close(const std::string &reason) {
  fail(reason);
  std::unique_lock<std::mutex> only(calling, std::try_to_lock);
  if (only)
    checkpoints.clear();
}

} // namespace fsdp
