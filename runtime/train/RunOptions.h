#ifndef FSDP_RUNTIME_TRAIN_RUNOPTIONS_H
#define FSDP_RUNTIME_TRAIN_RUNOPTIONS_H

#include "executor/Executor.h"

#include <cstdint>
#include <optional>
#include <string>

namespace fsdp {

/// What is shown of a run: `Notes` is what people should know, and nothing of
/// its steps; `Json` is an object per line, for programs.
enum class ProgressKind { Auto, Bar, Lines, Notes, None, Json };

/// What a run does about a step whose loss, or a gradient, is not finite.
/// `Plan`: what the plan does, which applies its update or skips it.
enum class NonFinite { Plan, Continue, Stop, Skip };

struct NonFiniteInfo {
  NonFinite kind;
  const char *name; // as --non-finite has it
};

/// What a run may ask for in place of what the plan does.
constexpr NonFiniteInfo nonFiniteKinds[] = {
    {NonFinite::Continue, "continue"},
    {NonFinite::Stop, "stop"},
    {NonFinite::Skip, "skip"},
};

/// When checkpoints are written, where to, and which one a run goes on from.
struct CheckpointOptions {
  std::string folder;    // empty: none are written
  uint64_t interval = 0; // steps; 0: not by steps
  double seconds = 0;    // 0: not by time
  uint64_t keep = 3;     // the newest; 0: all
  std::string keepBest;  // a metric whose least value is kept too; empty: none
  bool synchronous = false;
  bool mustSucceed = false; // one that cannot be written ends the run
  std::string resume;       // "auto", a checkpoint or a folder of some
};

/// Steps of a run, from 1, both ends among them.
struct TracedSteps {
  uint64_t first, last;
};

/// What a user may say about a run, apart from where its ranks are.
struct RunOptions {
  std::string weights, data, evalData; // files or folders; empty: none
  /// Commands of a shell in place of files, started for each rank.
  std::string dataCommand, evalDataCommand;
  double dataSeconds = 1800;     // that a rank waits for a batch of theirs
  bool weightsFromRank0 = false; // rank 0 alone has the file
  std::string save, metrics, summary;
  std::string tensorboard; // a folder of event files; empty: none are written
  std::string evalOutputs; // a file for what is of each sample; empty: none
  CheckpointOptions checkpoints;
  /// Where a rank that another one fails says how far it was; empty: beside
  /// what the run writes.
  std::string flightRecord;
  std::string trace;                      // a file; empty: nothing is traced
  std::optional<TracedSteps> tracedSteps; // default: some early ones
  std::string traceCluster;               // to predict for; empty: the plan's
  std::optional<uint64_t> steps, epochs;  // default: the plan's
  std::optional<int64_t> seed;            // default: the plan's
  bool shuffle = true;
  bool sequentialRandom = false;
  bool poison = false;
  bool graph = false; // replay programs as a device's graphs
  NonFinite nonFinite = NonFinite::Plan;
  bool logGradientNorm = false, logUnits = false;
  /// Steps from one that is logged to the next; default: 1, and then not each
  /// of them is shown.
  std::optional<uint64_t> logInterval;
  /// Operations per second that one rank could do; default: as the cluster
  /// says that the plan was compiled for.
  std::optional<double> peakFlops;
  uint64_t evalInterval = 0; // steps; 0: at each epoch's end
  ProgressKind progress = ProgressKind::Auto;
};

/// What of it would part the ranks if it differed, for people too:
/// "steps=default epochs=2 seed=1 ...".
std::string agreementOf(const RunOptions &options);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_RUNOPTIONS_H
