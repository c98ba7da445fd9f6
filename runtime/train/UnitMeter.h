#ifndef FSDP_RUNTIME_TRAIN_UNITMETER_H
#define FSDP_RUNTIME_TRAIN_UNITMETER_H

#include "executor/Executor.h"
#include "train/StepReport.h"

#include <map>
#include <vector>

namespace fsdp {

/// Measures what each of a plan's units costs one rank. Besides them it has one
/// for what is of no unit.
class UnitMeter {
public:
  explicit UnitMeter(const plan::PlanT &plan) : plan(plan) {}

  /// Measures the runs from here on. On a GPU, where the next
  /// step is launched before this one is over, nobody watches the streams.
  void begin(Executor &executor);
  /// Stops, and says what the runs since begin() cost, without norms; `step` is
  /// the number of the program that was run as the step. Exposed time is left
  /// out where somebody else recorded them.
  std::vector<UnitReport> end(int step, Executor &executor);

  /// How many it tells of; the last is what is of no unit.
  size_t size() const { return plan.units.size() + 1; }

private:
  /// What a step's collectives move, by unit.
  std::vector<uint64_t> bytesOf(int step) const;
  /// The unit that keeps a program's compute stream in each of its commands.
  const std::vector<size_t> &unitsOf(uint32_t program);

  const plan::PlanT &plan;
  std::map<uint32_t, std::vector<size_t>> units; // by program and command
  trace::Recorder recorder;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_UNITMETER_H
