#ifndef FSDP_RUNTIME_TRAIN_SAMPLEOUTPUTS_H
#define FSDP_RUNTIME_TRAIN_SAMPLEOUTPUTS_H

#include "comm/Communicator.h"
#include "data/SafeTensors.h"
#include "executor/Executor.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// What the plan's evaluation gives for each sample, in a safetensors file that
/// each evaluation writes anew. A row is a sample: those of one place in the
/// batches of all ranks follow each other, as DistributedSampler deals them
/// out. Collective; rank 0 has the file.
class SampleOutputs {
public:
  /// Throws Error where the plan gives nothing for each sample.
  SampleOutputs(const plan::PlanT &plan, std::string path,
                Communicator &communicator);

  /// An evaluation of so many batches of each rank begins.
  void begin(int64_t batches);
  /// Takes those of the run that is over, on all ranks alike.
  void add(Executor &executor);
  void finish();

private:
  const plan::PlanT &plan;
  std::string path;
  Communicator &communicator;
  int program;
  std::vector<const plan::OutputT *> outputs;
  std::unique_ptr<SafeTensorsWriter> file;
  int64_t batch = 0; // number of the next one
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_SAMPLEOUTPUTS_H
