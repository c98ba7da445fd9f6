#include "train/TrainingData.h"

#include "Error.h"
#include "train/FedBatches.h"
#include "train/SampledBatches.h"

#include <algorithm>

namespace fsdp {

static const plan::ProgramT &stepOf(const plan::PlanT &plan) {
  return *plan.programs.at(plan::findProgram(plan, plan::stepProgramName));
}

/// Throws Error where the plan cannot evaluate what is asked for.
static bool wantsEvaluation(const plan::PlanT &plan,
                            const RunOptions &options) {
  if (options.evalData.empty() && options.evalDataCommand.empty()) {
    if (options.evalInterval)
      throw Error(E::FlagsDisagree, "--eval-interval needs --eval-data FILE");
    if (!options.evalOutputs.empty())
      throw Error(E::FlagsDisagree, "--eval-outputs needs --eval-data FILE");
    return false;
  }
  int eval = plan::findProgram(plan, plan::evalProgramName);
  if (eval < 0)
    throw Error(E::FlagAndPlan,
                "the plan has no program 'eval'; export the step with "
                "eval_data, or drop --eval-data");
  if (!readsData(*plan.programs[eval]))
    throw Error(E::FlagAndPlan,
                "the plan's evaluation reads no data; drop --eval-data");
  return true;
}

TrainingData::TrainingData(const plan::PlanT &plan, const RunOptions &options,
                           const Communicator &communicator, int64_t seed)
    : plan(plan), ranks(communicator.size()) {
  const plan::ProgramT &step = stepOf(plan);
  int rank = communicator.rank();
  bool keepsStates = !options.checkpoints.folder.empty() ||
                     !options.checkpoints.resume.empty();
  auto open = [&](const char *program, const std::string &file,
                  const std::string &command,
                  FedBatches::Use use) -> std::unique_ptr<Batches> {
    if (!command.empty())
      return std::make_unique<FedBatches>(
          Variants(plan, program), command,
          BatchRing::Reader{rank, ranks, seed,
                            use == FedBatches::Use::Training && keepsStates},
          std::chrono::milliseconds(int64_t(1e3 * options.dataSeconds)), use);
    if (file.empty())
      return nullptr;
    bool shuffle = options.shuffle && use == FedBatches::Use::Training;
    return std::make_unique<SampledBatches>(Variants(plan, program), file,
                                            ranks, rank, shuffle, seed);
  };
  if (readsData(step)) {
    ofSteps = open(plan::stepProgramName, options.data, options.dataCommand,
                   FedBatches::Use::Training);
    if (!ofSteps)
      throw Error(E::FlagAndPlan,
                  "the plan reads its inputs from data; pass --data FILE, or "
                  "--data-command");
  } else if (!options.data.empty() || !options.dataCommand.empty()) {
    throw Error(E::FlagAndPlan,
                "the plan reads no data, its inputs repeat; drop --data, or "
                "export the step with data");
  }
  if (wantsEvaluation(plan, options))
    ofEval = open(plan::evalProgramName, options.evalData,
                  options.evalDataCommand, FedBatches::Use::Evaluation);
  for (const auto &batches : {ofSteps.get(), ofEval.get()})
    if (batches)
      batches->open();
}

TrainingData::Amount TrainingData::ofStep(int number) const {
  Amount amount;
  if (!ofSteps)
    return amount;
  const plan::ProgramT &program = *plan.programs.at(number);
  int64_t batches = int64_t(ranks) * plan.micro_batches;
  amount.samples = DataInputs(program).batch() * batches;
  for (const auto &input : program.inputs) {
    const plan::ValueT &value = *program.values[input->value];
    if (input->from_data && value.shape.size() == 2 &&
        (value.dtype == plan::DType::Int64 ||
         value.dtype == plan::DType::Int32))
      amount.tokens =
          std::max(amount.tokens, *plan::numElements(value.shape) * batches);
  }
  return amount;
}

std::vector<Found> TrainingData::found() const {
  std::vector<Found> found;
  for (const auto *batches : {&ofSteps, &ofEval})
    if (*batches)
      for (const Found &thing : (*batches)->found())
        found.push_back(thing);
  return found;
}

std::vector<std::string> TrainingData::notes() const {
  std::vector<std::string> notes;
  if (ofSteps && ofSteps->hasEpochs()) {
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
