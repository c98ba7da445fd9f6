#include "train/TrainingData.h"

#include "Error.h"
#include "train/SampledBatches.h"

#include <algorithm>

namespace fsdp {

static const plan::ProgramT &stepOf(const plan::PlanT &plan) {
  return *plan.programs.at(plan::findProgram(plan, "step"));
}

TrainingData::TrainingData(const plan::PlanT &plan, const RunOptions &options,
                           const Communicator &communicator, int64_t seed)
    : plan(plan) {
  const plan::ProgramT &step = stepOf(plan);
  int ranks = communicator.size(), rank = communicator.rank();
  if (readsData(step)) {
    if (options.data.empty())
      throw Error("the plan reads its inputs from data; pass --data FILE");
    ofSteps = std::make_unique<SampledBatches>(step, options.data, ranks, rank,
                                               options.shuffle, seed);
    samplesPerStep = samplesOfStep(plan, *ofSteps);
    tokensPerStep = countTokens(ranks) * plan.micro_batches;
  } else if (!options.data.empty()) {
    throw Error("the plan reads no data, its inputs repeat; drop --data, or "
                "export the step with data");
  }
  if (options.evalData.empty()) {
    if (options.evalInterval)
      throw Error("--eval-interval needs --eval-data FILE");
    return;
  }
  int eval = plan::findProgram(plan, "eval");
  if (eval < 0)
    throw Error("the plan has no program 'eval'; export the step with "
                "eval_data, or drop --eval-data");
  if (!readsData(*plan.programs[eval]))
    throw Error("the plan's evaluation reads no data; drop --eval-data");
  ofEval = std::make_unique<SampledBatches>(*plan.programs[eval],
                                            options.evalData, ranks, rank,
                                            /*shuffle=*/false, seed);
}

int64_t TrainingData::countTokens(int ranks) const {
  const plan::ProgramT &step = stepOf(plan);
  int64_t tokens = 0;
  for (const auto &input : step.inputs) {
    const plan::ValueT &value = *step.values[input->value];
    if (input->from_data && value.shape.size() == 2 &&
        (value.dtype == plan::DType::Int64 ||
         value.dtype == plan::DType::Int32))
      tokens = std::max(tokens, *plan::numElements(value.shape) * ranks);
  }
  return tokens;
}

std::vector<Found> TrainingData::found() const {
  std::vector<Found> found;
  for (const auto *batches : {&ofSteps, &ofEval})
    if (*batches)
      found.push_back({"samples in " + (*batches)->path(),
                       static_cast<uint64_t>((*batches)->samples())});
  return found;
}

std::vector<std::string> TrainingData::notes() const {
  std::vector<std::string> notes;
  if (ofSteps) {
    uint64_t batches = ofSteps->perEpoch() % plan.micro_batches;
    uint64_t samples = ofSteps->dropped() + batches * ofSteps->globalBatch();
    std::string of = std::to_string(ofSteps->globalBatch());
    std::string unit = plan.micro_batches == 1
                           ? "batch of " + of
                           : "step of " + std::to_string(plan.micro_batches) +
                                 " micro-batches of " + of;
    if (samples)
      notes.push_back(std::to_string(samples) +
                      " samples of each epoch are left out: they fill no " +
                      unit);
  }
  if (ofEval && ofEval->dropped())
    notes.push_back(std::to_string(ofEval->dropped()) +
                    " evaluation samples are left out: they fill no batch of " +
                    std::to_string(ofEval->globalBatch()));
  return notes;
}

} // namespace fsdp
