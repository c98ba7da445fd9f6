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

/// Writes a run's checkpoints, each while later steps run. All ranks make the
/// same calls. A failure is told and counted, and the run goes on.
class Checkpoints {
public:
  using Note = std::function<void(const std::string &)>;

  /// Throws Error, on all ranks alike, where the folder cannot be written, has
  /// no room for one checkpoint, or has checkpoints of another run or of later
  /// steps than the one that this run goes on `from`. Collective.
  Checkpoints(const plan::LoadedPlan &loaded, const CheckpointOptions &options,
              const ResumePoint &from, Communicator &communicator, Note note);
  ~Checkpoints();

  /// Whether a checkpoint is due after `step`, by the number of steps.
  bool isDue(uint64_t step) const {
    return options.interval && step % options.interval == 0;
  }
  /// Whether, by this rank's clock, it is time for one.
  bool isTime() const;

  /// Waits for the checkpoint before it, copies the state, which is as of the
  /// position's step, and begins to write it. `loader` is the state of this
  /// rank's loader, or empty. Collective.
  void begin(const checkpoint::RunPosition &position, Executor &executor,
             const std::string &loader = "");
  /// Waits for the checkpoint that is being written. Throws Error, on all ranks
  /// alike, where it failed and the options say that it must not. Collective.
  void finish();

  /// Where the checkpoint of a step is, or would be.
  std::string pathOf(uint64_t step) const { return folder.pathOf(step); }
  /// How many checkpoints could not be written.
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
  std::optional<uint64_t>
  bestByMetric(const std::vector<uint64_t> &steps) const;
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
  // Rank 0's, to be read once `writer` is joined: why there is no new
  // checkpoint, and why an old one was not removed.
  std::string commitProblem, retainProblem;

  Clock::time_point last; // when the last one began
  uint64_t failed = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_CHECKPOINTS_H
