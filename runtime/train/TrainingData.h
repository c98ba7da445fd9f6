#ifndef FSDP_RUNTIME_TRAIN_TRAININGDATA_H
#define FSDP_RUNTIME_TRAIN_TRAININGDATA_H

#include "comm/Communicator.h"
#include "comm/SameOnAllRanks.h"
#include "train/Batches.h"
#include "train/RunOptions.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// What a run reads: the batches of its steps and of its evaluations.
class TrainingData {
public:
  /// Throws Error where the files do not fit what the plan reads.
  TrainingData(const plan::PlanT &plan, const RunOptions &options,
               const Communicator &communicator, int64_t seed);

  /// Null: every step has the same inputs.
  Batches *train() { return ofSteps.get(); }
  /// Null: nothing is evaluated.
  Batches *eval() { return ofEval.get(); }

  /// What may be wrong with what the steps have read; empty: nothing.
  std::string doubt() const { return ofSteps ? ofSteps->doubt() : ""; }
  /// What must be the same on all ranks, since each reads its own files.
  std::vector<Found> found() const;
  /// Sentences about samples that no epoch and no evaluation gets to see.
  std::vector<std::string> notes() const;

  /// Of all ranks and micro-batches; 0: unknown. A token is an element of the
  /// largest integer input with a sequence in it.
  struct Amount {
    int64_t samples = 0, tokens = 0;
  };
  /// What a step reads that runs this program.
  Amount ofStep(int program) const;
  /// In the data set of the steps; 0: there is none.
  int64_t samples() const { return ofSteps ? ofSteps->samples() : 0; }

private:
  const plan::PlanT &plan;
  const int ranks;
  std::unique_ptr<Batches> ofSteps, ofEval;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_TRAININGDATA_H
