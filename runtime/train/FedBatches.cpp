#include "train/FedBatches.h"

#include "Error.h"
#include "plan/FormatText.h"

namespace fsdp {

/// What each variant reads.
static std::vector<std::vector<Column>> columnsOf(const Variants &variants) {
  std::vector<std::vector<Column>> columns;
  for (size_t v = 0; v < variants.size(); ++v)
    columns.push_back(DataInputs(variants[v]).columns);
  return columns;
}

FedBatches::FedBatches(const Variants &variants, const std::string &command,
                       const BatchRing::Reader &reader,
                       std::chrono::milliseconds patience, Use use)
    : Batches(variants), command(command), inputs(variants[0]),
      batch(inputs.batch()), ranks(reader.ranks), use(use),
      ring(columnsOf(variants), reader),
      loader(command, ring, reader, patience) {}

void FedBatches::open() {
  loader.awaitReady("its first word");
  extent = ring.extent();
  if (use == Use::Evaluation && !hasEpochs())
    throw Error(E::Loader,
                "the loader of the evaluation has no end; give one with a "
                "length");
}

std::vector<Found> FedBatches::found() const {
  return {{"batches of an epoch from " + command,
           static_cast<uint64_t>(extent.batches)}};
}

/// "batch 3 of epoch 1": counted from 0, as a loader counts them.
static std::string nameOf(int64_t epoch, int64_t batch, bool hasEpochs) {
  return "batch " + std::to_string(batch) +
         (hasEpochs ? " of epoch " + std::to_string(epoch) : "");
}

/// The batch that is due, in the ring until set() takes it.
const BatchRing::Batch &FedBatches::await(int64_t epoch, int64_t number) {
  if (here)
    return *here;
  if (use == Use::Evaluation)
    epoch = passes += number == 0;
  if (!isStarted) {
    ring.start(epoch, number, lastState);
    loader.free(BatchRing::slots);
    isStarted = true;
  }
  std::string due = nameOf(epoch, number, hasEpochs());
  for (;; ++taken, loader.free(1)) {
    loader.awaitReady(due);
    BatchRing::Batch next = ring.at(taken);
    // At the end of an epoch some may fill no step.
    if (next.epoch < epoch || (next.epoch == epoch && next.number < number))
      continue;
    std::string name = nameOf(next.epoch, next.number, hasEpochs());
    if (next.epoch != epoch || next.number != number)
      throw Error(E::Loader,
                  "the loader gave " + name + " where " + due +
                      " was due; give the batches that it announced");
    findNaN(next, name);
    return here.emplace(std::move(next));
  }
}

void FedBatches::set(int64_t epoch, int64_t number, int program,
                     Executor &executor) {
  await(epoch, number);
  for (size_t c = 0; c < inputs.columns.size(); ++c)
    executor.setInput(program, inputs.numbers[c], ring.column(taken, c));
  if (!variants.readsLast(program))
    return;
  lastState = std::move(here->state);
  here.reset();
  ++taken;
  loader.free(1);
}

void FedBatches::findNaN(const BatchRing::Batch &here,
                         const std::string &name) {
  if (here.nanColumn < 0 || !firstNaN.empty())
    return;
  firstNaN = name + " from the loader has NaN in sample " +
             std::to_string(here.nanSample) + " of " +
             inputs.columns[here.nanColumn].name;
  std::string origin;
  if (here.nanWorker >= 0)
    origin = "worker " + std::to_string(here.nanWorker);
  if (here.nanSampleOfData >= 0)
    appendListed(origin, "sample " + std::to_string(here.nanSampleOfData) +
                             " of the data set");
  if (!origin.empty())
    firstNaN += " (" + origin + ")";
}

} // namespace fsdp
