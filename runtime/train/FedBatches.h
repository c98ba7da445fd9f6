#ifndef FSDP_RUNTIME_TRAIN_FEDBATCHES_H
#define FSDP_RUNTIME_TRAIN_FEDBATCHES_H

#include "data/BatchRing.h"
#include "data/LoaderProcess.h"
#include "train/Batches.h"

#include <optional>

namespace fsdp {

/// Batches that a process of the user's makes, one for each rank.
class FedBatches : public Batches {
public:
  /// How often a program reads them.
  enum class Use {
    Training,  // each epoch once
    Evaluation // the same batches whenever it evaluates: a pass of the loader
  };

  /// Starts the command. Throws Error.
  FedBatches(const Variants &variants, const std::string &command,
             const BatchRing::Reader &reader,
             std::chrono::milliseconds patience, Use use);

  void open() override;
  bool hasEpochs() const override { return extent.batches >= 0; }
  int64_t perEpoch() const override { return extent.batches; }
  int64_t globalBatch() const override { return batch * ranks; }
  int64_t samples() const override { return 0; }
  int64_t dropped() const override { return 0; }
  std::vector<Found> found() const override;
  const std::string &path() const override { return command; }
  void set(int64_t epoch, int64_t batch, int program,
           Executor &executor) override;
  std::string doubt() const override { return firstNaN; }
  std::string state() const override { return lastState; }
  void resumeFrom(const std::string &state) override { lastState = state; }

protected:
  size_t variantOf(int64_t epoch, int64_t batch) override {
    return await(epoch, batch).variant;
  }

private:
  const BatchRing::Batch &await(int64_t epoch, int64_t number);
  void findNaN(const BatchRing::Batch &here, const std::string &name);

  std::string command;
  DataInputs inputs;
  int64_t batch;
  int ranks;
  Use use;
  BatchRing ring;
  LoaderProcess loader;
  BatchRing::Extent extent = {-1};
  uint64_t taken = 0;                   // slots
  std::optional<BatchRing::Batch> here; // in the slot `taken`
  int64_t passes = -1; // of an evaluation, the one that goes on
  bool isStarted = false;
  std::string firstNaN;
  std::string lastState; // of the loader, behind the last batch that was taken
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_FEDBATCHES_H
