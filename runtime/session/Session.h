#ifndef FSDP_RUNTIME_SESSION_SESSION_H
#define FSDP_RUNTIME_SESSION_SESSION_H

#include "Error.h"
#include "plan/PlanFile.h"
#include "session/FedInputs.h"
#include "session/JoinRanks.h"
#include "session/StateViews.h"
#include "train/Checkpoints.h"
#include "train/LoadedRun.h"
#include "train/NonFiniteSteps.h"
#include "train/StepDecisions.h"
#include "train/StepReport.h"
#include "train/StepRunner.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace fsdp {

/// Nothing has happened, on any rank, and the session goes on.
struct Refusal : Error {
  using Error::Error;
};

/// The step was taken, the same on all ranks, and the session goes on: its loss
/// or a gradient is not finite, and the caller wants to stop for that.
struct NonFiniteLoss : Error {
  using Error::Error;
};

/// What an evaluation of one batch gives on this rank.
struct Evaluated {
  NamedScalars numbers;
  std::vector<std::pair<std::string, at::Tensor>> tensors; // by sample
};

/// What a session's last step came to.
struct SessionStep : FinishedStep {
  double stepMs = 0;
  std::string note; // what people should know of it; empty: nothing
};

/// A folder that a session writes checkpoints into.
struct OwnCheckpoints {
  CheckpointOptions options; // which `to` refers to
  std::unique_ptr<Checkpoints> to;
};

/// Where a batch of those that were given comes from, or one row of it (-1: all
/// of it), as the end of a sentence; asked where something is wrong with it.
using BatchOrigin = std::function<std::string(size_t batch, int64_t row)>;

/// One rank of a run whose loop is the caller's: the caller gives each step its
/// data and says when to evaluate and to save. All ranks call the same in the
/// same order, but for what is said to be a rank's own.
///
/// A call that fails ends the session: the other ranks' calls throw
/// PeerFailure, and later ones of this rank say why. Only a Refusal, and a
/// BatchError on a rank that is alone, leave it as it was. One call runs at a
/// time; a second one, of another thread, is an Error.
class Session : public std::enable_shared_from_this<Session> {
public:
  /// Reads and checks the plan, meets the other ranks and gives the states
  /// their values. `run` says what from: weights, seed, resume. Throws Error.
  static std::shared_ptr<Session> open(const std::string &planPath,
                                       RunOptions run, const JoinOptions &join);
  ~Session();

  /// Of this rank; they wait for nobody.
  int rank() const { return ranks().rank(); }
  int size() const { return ranks().size(); }
  const plan::PlanT &plan() const { return *loaded.plan; }
  const std::string &digest() const { return loaded.digest; }
  const std::string &transport() const { return opened.transport; }
  const std::vector<std::string> &notes() const { return said; }
  /// Steps that are done.
  uint64_t steps() const { return done; }
  /// Says so for states that are given from outside, the same on all ranks.
  void setSteps(uint64_t steps);
  const std::optional<SessionStep> &last() const { return lastStep; }
  /// Of a step's outputs.
  const std::vector<std::string> &names() const { return stepNames; }
  /// See lossesOfStep().
  const std::vector<std::pair<std::string, size_t>> &losses() const {
    return stepLosses;
  }

  /// Of the next step, by parameter group. Throws Error past the end of the
  /// plan's table.
  std::vector<double> learningRates() const;
  /// From the next step on, the same on all ranks. Throws Refusal where the
  /// plan has a table of them, or another number of groups.
  void setLearningRates(std::vector<double> rates);

  /// Takes a step: see FedInputs::take(). Its outputs are this rank's. Throws
  /// NonFiniteLoss where the options say that such steps stop a run.
  const SessionStep &step(const std::vector<Batch> &batches,
                          const BatchOrigin &origin);
  /// Runs the program "eval" on one batch. Returns this rank's outputs.
  Evaluated evaluate(const std::vector<Batch> &batches);
  /// The means over all ranks.
  std::vector<double> mean(std::vector<double> values);
  void barrier();

  /// Writes the weights; rank 0 alone has the file. Throws Refusal, on all
  /// ranks, where that fails.
  void save(const std::string &path);
  /// Writes a checkpoint below `folder`, keeps the newest `keep` there (0: all)
  /// and returns its path when it is whole. Throws Refusal, on all ranks, where
  /// that fails: those before it are whole.
  std::string checkpoint(const std::string &folder, uint64_t keep);
  /// This rank's own, of the memory that the session trains in.
  std::vector<StateView> states();
  NamedTensors whole(bool flatAlone, bool withOptimizer);
  /// Gives states the values of whole tensors, on all ranks alike.
  void put(const NamedTensors &tensors);

  /// This rank leaves: what the others wait for fails and says `reason`. From
  /// any thread.
  void leave(const std::string &reason);
  /// Likewise, and lets go of the folder of its checkpoints. The memory stays
  /// as long as somebody has a view of it.
  void close(const std::string &reason);

private:
  c10::Device device() const { return opened.backend->kernels().device(); }
  Session(const std::string &planPath, RunOptions run, const JoinOptions &join);
  void load();
  template <typename Call> decltype(auto) guarded(Call &&call);
  void fail(const std::string &reason, bool isOthers = false);
  void requireProgram(const char *name) const;
  uint64_t samplesOf(const plan::ProgramT &program) const;
  void lookAtLoss(const BatchOrigin &origin);
  Checkpoints &openCheckpoints(const std::string &folder, uint64_t keep);
  checkpoint::RunPosition position() const;
  Communicator &ranks() const { return *joined.connection.communicator; }

  plan::LoadedPlan loaded;
  RunOptions options;
  JoinedRanks joined;
  OpenedBackend opened;
  std::optional<ResumePoint> from;
  std::optional<LoadedRun> state;
  const std::vector<std::string> stepNames;
  const std::vector<std::pair<std::string, size_t>> stepLosses;
  FedInputs stepInputs;
  std::optional<FedInputs> evalInputs;
  std::optional<StepRunner> runner;
  std::optional<NonFiniteSteps> nonFinite;
  std::optional<StepDecisions> decisions; // where ranks stop together
  // By folder. Each stays open, so that nobody else writes there.
  std::map<std::string, OwnCheckpoints> checkpoints;
  std::vector<std::string> said;
  std::vector<std::string> news; // of the executor, which no step has told yet
  std::vector<double> givenRates;
  uint64_t done = 0, samples = 0; // steps; what they read on all ranks
  std::optional<SessionStep> lastStep;
  std::mutex calling, ending;
  std::string ended; // why; empty: it goes on
};

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_SESSION_H
