#ifndef FSDP_RUNTIME_TRAIN_STEPTRACE_H
#define FSDP_RUNTIME_TRAIN_STEPTRACE_H

#include "comm/ClockOffsets.h"
#include "comm/Communicator.h"
#include "cost/Cluster.h"
#include "executor/Executor.h"
#include "plan/PlanFile.h"
#include "train/RunOptions.h"
#include "train/StepReport.h"

#include <functional>

namespace fsdp {

/// Records some steps of a run, and has rank 0 write them as a trace, beside
/// what was predicted. All ranks do the same with it.
class StepTrace {
public:
  /// Tells people something.
  using Note = std::function<void(const std::string &)>;

  /// Rank 0's options count. Throws Error where the steps are not in the run,
  /// or the cluster is none. A file that cannot be written is a note.
  StepTrace(const plan::LoadedPlan &loaded, const RunOptions &options,
            Communicator &communicator, const RunLength &length, Note note);

  /// In front of a step.
  void before(uint64_t step, Executor &executor);
  /// Behind a step. True behind the last one, when the file is written, which
  /// waits for all ranks.
  bool after(uint64_t step, Executor &executor);
  /// The run is over, perhaps before the last of the steps: writes those that
  /// were recorded and are not written. Collective.
  void finish();

private:
  bool isTraced(uint64_t step) const {
    return first && first <= step && step <= last;
  }
  void write();
  void writeFile(const std::vector<std::vector<char>> &packed,
                 const std::vector<ClockOffset> &offsets);

  const plan::LoadedPlan &loaded;
  const RunOptions &options;
  Communicator &communicator;
  Note note;
  uint64_t first = 0, last = 0; // 0: none
  cost::Cluster cluster;
  trace::Recorder recorder;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STEPTRACE_H
