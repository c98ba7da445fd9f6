#include "train/Evaluation.h"

#include "train/StepLog.h"

namespace fsdp {

NamedScalars evaluate(const plan::PlanT &plan, uint64_t step, Batches &batches,
                      const RepeatedInputs &repeated,
                      Communicator &communicator, Executor &executor) {
  int program = plan::findProgram(plan, "eval");
  const auto &named = plan.programs[program]->outputs;
  std::vector<double> sums(named.size());
  for (int64_t batch = 0; batch < batches.perEpoch(); ++batch) {
    repeated.set(program, executor);
    batches.set(0, batch, program, executor);
    executor.run(program, step);
    std::vector<double> values = executor.outputs();
    for (size_t i = 0; i < named.size(); ++i)
      sums[i] += values[i];
  }
  sums = sumOverRanks(communicator, sums);
  NamedScalars result;
  for (size_t i = 0; i < named.size(); ++i)
    result.emplace_back("eval_" + named[i]->name,
                        sums[i] / (batches.perEpoch() * communicator.size()));
  return result;
}

} // namespace fsdp
