#include "train/Evaluation.h"

#include "plan/ProgramOutputs.h"
#include "train/StepLog.h"

namespace fsdp {

NamedScalars evaluate(const plan::PlanT &plan, uint64_t step, Batches &batches,
                      const RepeatedInputs &repeated,
                      Communicator &communicator, Executor &executor,
                      SampleOutputs *ofSamples) {
  auto named = plan::outputsOf(
      *plan.programs[plan::findProgram(plan, plan::evalProgramName)],
      /*numbers=*/true);
  std::vector<double> sums(named.size());
  if (ofSamples)
    ofSamples->begin(batches.perEpoch());
  for (int64_t batch = 0; batch < batches.perEpoch(); ++batch) {
    int program = batches.programOf(0, batch, communicator);
    repeated.set(program, executor);
    batches.set(0, batch, program, executor);
    executor.run(program, step);
    std::vector<double> values = executor.outputs();
    for (size_t i = 0; i < named.size(); ++i)
      sums[i] += values[i];
    if (ofSamples)
      ofSamples->add(executor);
  }
  if (ofSamples)
    ofSamples->finish();
  sums = sumOverRanks(communicator, sums);
  NamedScalars result;
  for (size_t i = 0; i < named.size(); ++i)
    result.emplace_back("eval_" + named[i]->name,
                        sums[i] / (batches.perEpoch() * communicator.size()));
  return result;
}

} // namespace fsdp
