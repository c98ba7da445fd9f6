#ifndef FSDP_RUNTIME_TRAIN_CHECKPOINTS_H
#define FSDP_RUNTIME_TRAIN_CHECKPOINTS_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "plan/PlanFile.h"
#include "state/CheckpointWriter.h"
#include "train/ResumePoint.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace fsdp {

/// Writes a run's checkpoints, each behind the steps that follow it. All ranks
/// do the same with it; what fails is told and counted, and the run goes on.
class Checkpoints {
public:
  using Note = std::function<void(const std::string &)>;

  /// Throws Error, on all ranks alike, where the folder cannot be written, is
  /// another run's, has no room for one checkpoint, or has some of another past
  /// or future than that of the state the run goes on `from`. Collective.
  Checkpoints(const plan::LoadedPlan &loaded, const CheckpointOptions &options,
              const ResumePoint &from, Communicator &communicator, Note note);
  ~Checkpoints();

  /// Whether one is due after `step` by the number of steps.
  bool isDue(uint64_t step) const {
    return options.interval && step % options.interval == 0;
  }
  /// Whether, by this rank's clock, it is time for one.
  bool isTime() const;

  /// Copies the state, which is as of the position's step, and begins to write
  /// it; waits for the one before. `loader`: the state of this rank's, or
  /// nothing. Collective.
  void begin(const checkpoint::RunPosition &position, Executor &executor,
             const std::string &loader = "");
  /// Waits for what is being written. Collective. Throws Error, on all ranks
  /// alike, where it failed and the options say that it must not.
  void finish();

  /// Where the one of a step is, or would be.
  std::string pathOf(uint64_t step) const { return folder.pathOf(step); }
  /// Those that could not be written.
  uint64_t failures() const { return failed; }

private:
  using Clock = std::chrono::steady_clock;

  void checkMetric() const;
  void open(const ResumePoint &from);
  void requireOwn(const ResumePoint &from) const;
  void checkSpace() const;
  void hold();
  void prepare(Executor &executor);
  void write();
  void retain() const;
  std::optional<uint64_t> lastGood(const std::vector<uint64_t> &steps) const;
  void tellFailure(const std::string &why);
  bool isFirst() const { return communicator.rank() == 0; }

  const plan::PlanT &plan;
  const CheckpointOptions &options;
  Communicator &communicator;
  Note note;
  checkpoint::Folder folder;
  checkpoint::Shards shards;
  checkpoint::Facts facts;

  std::thread writer;
  std::atomic<bool> cancelled = false;
  std::promise<std::string> shardsWritten; // or why they are not
  // Rank 0's, once it is joined: there is no new checkpoint, or too many old.
  std::string commitProblem, retainProblem;

  Clock::time_point last; // when the last one began
  uint64_t failed = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_CHECKPOINTS_H
