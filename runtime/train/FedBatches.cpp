#include "train/FedBatches.h"

#include "Error.h"

namespace fsdp {

FedBatches::FedBatches(const plan::ProgramT &program,
                       const std::string &command,
                       const BatchRing::Reader &reader,
                       std::chrono::milliseconds patience, Use use)
    : command(command), inputs(program), batch(inputs.batch()),
      ranks(reader.ranks), use(use), ring(inputs.columns, reader),
      loader(command, ring, reader, patience) {}

void FedBatches::open() {
  loader.awaitReady("its first word");
  extent = ring.extent();
  if (use == Use::Evaluation && !hasEpochs())
    throw Error("the loader of the evaluation has no end; give one with a "
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

void FedBatches::set(int64_t epoch, int64_t number, int program,
                     Executor &executor) {
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
    BatchRing::Batch here = ring.at(taken);
    // At the end of an epoch some may fill no step.
    if (here.epoch < epoch || (here.epoch == epoch && here.number < number))
      continue;
    std::string name = nameOf(here.epoch, here.number, hasEpochs());
    if (here.epoch != epoch || here.number != number)
      throw Error("the loader gave " + name + " where " + due +
                  " was due; give the batches that it announced");
    findNaN(here, name);
    lastState = std::move(here.state);
    break;
  }
  for (size_t c = 0; c < inputs.columns.size(); ++c)
    executor.setInput(program, inputs.numbers[c], ring.column(taken, c));
  ++taken;
  loader.free(1);
}

void FedBatches::findNaN(const BatchRing::Batch &here,
                         const std::string &name) {
  if (here.nanColumn >= 0 && firstNaN.empty())
    firstNaN = name + " from the loader has NaN in sample " +
               std::to_string(here.nanSample) + " of " +
               inputs.columns[here.nanColumn].name;
}

} // namespace fsdp
