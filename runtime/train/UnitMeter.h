#ifndef FSDP_RUNTIME_TRAIN_UNITMETER_H
#define FSDP_RUNTIME_TRAIN_UNITMETER_H

#include "executor/Executor.h"
#include "train/StepReport.h"

#include <map>
#include <vector>

namespace fsdp {

/// Measures what each of a plan's units costs one rank, and what the commands
/// of no unit cost together.
class UnitMeter {
public:
  explicit UnitMeter(const plan::PlanT &plan) : plan(plan) {}

  /// Measures the runs from here on. On a GPU exposed time is not measured,
  /// since the next step is launched before this one is over.
  void begin(Executor &executor);
  /// Stops, and says what the runs since begin() cost, without norms; `step` is
  /// the number of the program that was run as the step. Exposed time is left
  /// out where another recorder took the place of this one.
  std::vector<UnitReport> end(int step, Executor &executor);

  /// The number of reports; the last one is for the commands of no unit.
  size_t size() const { return plan.units.size() + 1; }

private:
  /// The bytes that a step's collectives move, by unit.
  std::vector<uint64_t> bytesOf(int step) const;
  /// The unit that a program's compute stream waits for in each command.
  const std::vector<size_t> &unitsOf(uint32_t program);

  const plan::PlanT &plan;
  std::map<uint32_t, std::vector<size_t>> units; // by program and command
  trace::Recorder recorder;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_UNITMETER_H
