#ifndef FSDP_RUNTIME_TRAIN_RESUMEPOINT_H
#define FSDP_RUNTIME_TRAIN_RESUMEPOINT_H

#include "comm/Communicator.h"
#include "executor/Executor.h"
#include "state/CheckpointFormat.h"
#include "train/RunOptions.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// The checkpoint that a run goes on from. All ranks do the same with it.
class ResumePoint {
public:
  using Note = std::function<void(const std::string &)>;

  /// Finds the checkpoints that the options ask for and reads the newest
  /// whole manifest. Throws Error where none is whole, or none is there and one
  /// was named. Collective.
  ResumePoint(const CheckpointOptions &options, Communicator &communicator);

  /// False: the run starts afresh, since there is no checkpoint.
  explicit operator bool() const { return manifest.has_value(); }
  const checkpoint::RunPosition &position() const { return manifest->run; }
  const std::string &folder() const { return paths.front(); }
  /// Whether the options name it alone; else those that are newer in its folder
  /// are damaged. Rank 0 knows.
  bool isNamed() const { return named; }
  /// Where this rank's loader was, as of load(); empty where there are other
  /// ranks now, or one of them left nothing.
  const std::string &loaderState() const { return loader; }

  /// Reads the states, and the loader's. Where one is damaged, on any rank, its
  /// place takes the checkpoint before it. Throws Error where none is left, or
  /// where one does not fit the plan. Collective.
  void load(const plan::PlanT &plan, Executor &executor);

  /// What people should know, such as which checkpoint is damaged.
  const std::vector<std::string> &notes() const { return said; }

private:
  void openNewest();
  void readLoader();
  /// Whether all ranks are well; if not, what is wrong is said.
  bool agree(const std::string &problem);

  Communicator &communicator;
  std::vector<std::string> paths; // that may still be read, newest first
  std::optional<checkpoint::Manifest> manifest; // of the first
  std::string loader;
  std::vector<std::string> said;
  bool named = false;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_RESUMEPOINT_H
