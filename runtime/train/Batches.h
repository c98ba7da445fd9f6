#ifndef FSDP_RUNTIME_TRAIN_BATCHES_H
#define FSDP_RUNTIME_TRAIN_BATCHES_H

#include "comm/SameOnAllRanks.h"
#include "data/SampleSource.h"
#include "executor/Executor.h"
#include "train/Variants.h"

#include <string>

namespace fsdp {

/// What a program, or several with the same inputs, read, batch after batch;
/// of a program's variants each batch chooses one.
class Batches {
public:
  explicit Batches(Variants variants) : variants(std::move(variants)) {}
  virtual ~Batches() = default;

  /// Waits until it is known how much there is, before anything is asked.
  /// Throws Error.
  virtual void open() {}
  /// Whether there are epochs; else the batches have no end.
  virtual bool hasEpochs() const { return true; }
  /// Batches of an epoch; the same on all ranks.
  virtual int64_t perEpoch() const = 0;
  /// Samples per batch, all ranks together.
  virtual int64_t globalBatch() const = 0;
  /// In all the data; 0: unknown.
  virtual int64_t samples() const = 0;
  /// Samples that no batch of an epoch has.
  virtual int64_t dropped() const = 0;
  /// For messages.
  virtual const std::string &path() const = 0;

  /// What must be the same on all ranks, since each reads its own.
  virtual std::vector<Found> found() const = 0;
  /// What may be wrong with what was read, as a sentence; empty: nothing.
  virtual std::string doubt() const { return ""; }
  /// Where this rank's data is behind the last batch, in its own words, which a
  /// later run of as many ranks may go on from; empty: batches say enough.
  virtual std::string state() const { return ""; }
  /// Goes on from such words, before the first batch.
  virtual void resumeFrom(const std::string &) {}

  /// The program that reads batch `batch` of epoch `epoch`, the same on all
  /// ranks. Collective where it has variants. Throws Disagreement.
  int programOf(int64_t epoch, int64_t batch, Communicator &communicator) {
    size_t chosen = variants.size() > 1 ? variantOf(epoch, batch) : 0;
    return variants.agree(communicator, chosen);
  }
  /// Gives a program's inputs batch `batch` of epoch `epoch`, both from 0; the
  /// same one for each turn of a step.
  virtual void set(int64_t epoch, int64_t batch, int program,
                   Executor &executor) = 0;

protected:
  /// Which variant reads the next batch; waits for it.
  virtual size_t variantOf(int64_t epoch, int64_t batch) = 0;

  const Variants variants;
};

/// The inputs of a program that come from data.
struct DataInputs {
  explicit DataInputs(const plan::ProgramT &program);

  std::vector<size_t> numbers; // of the program's inputs, by column
  std::vector<Column> columns;
  /// Samples of one rank. Throws Error where the columns disagree.
  int64_t batch() const;
};

/// Samples of all ranks and micro-batches in a step.
inline uint64_t samplesOfStep(const plan::PlanT &plan, const Batches &data) {
  return data.globalBatch() * plan.micro_batches;
}

/// Does the program read anything from data?
bool readsData(const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_BATCHES_H
