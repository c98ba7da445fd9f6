// Checks the collectives of a program; for the checker only.
#ifndef FSDP_PLAN_CHECK_COLLECTIVECHECKER_H
#define FSDP_PLAN_CHECK_COLLECTIVECHECKER_H

#include "plan/check/ProgramMemory.h"
#include "plan/check/SharedNumbers.h"

namespace fsdp::plan {

/// Checks among which ranks and on which channel collectives are, and that
/// their values have the bytes that move. Notes what they do to the program's
/// memory.
class CollectiveChecker {
public:
  CollectiveChecker(const PlanT &plan, const ProgramT &program,
                    ProgramMemory &memory, const SharedNumbers &numbers)
      : plan(plan), program(program), memory(memory), numbers(numbers) {}

  /// Checks the next collective in the order of the program's commands.
  void check(const Checked &here, const CollectiveT &collective);

private:
  void checkKinds(const Checked &here, const CollectiveT &collective) const;
  void checkChannel(const Checked &here, const CollectiveT &collective);
  void checkValues(const Checked &here, const CollectiveT &collective) const;
  /// How many ranks exchange; they have different parts, where parts move.
  uint32_t checkRanks(const Checked &here, const CollectiveT &collective,
                      bool overShards) const;
  void checkBytes(const Checked &here, const CollectiveT &collective,
                  uint32_t ranks) const;

  const PlanT &plan;
  const ProgramT &program;
  ProgramMemory &memory;
  const SharedNumbers &numbers;
  std::map<uint32_t, uint32_t> streams; // by channel
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_COLLECTIVECHECKER_H
