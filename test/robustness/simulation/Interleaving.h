#ifndef FSDP_TEST_SIMULATION_INTERLEAVING_H
#define FSDP_TEST_SIMULATION_INTERLEAVING_H

#include "RankScheduler.h"
#include "plan/PlanTypes.h"

namespace fsdp::test {

/// Marks on the compute stream behind each of its commands, so that others may
/// run between any two kernels.
plan::PlanT withTurns(const plan::PlanT &plan);

/// The plan with the commands of its streams launched in another order: those
/// of a stream in the list's, and a wait behind the record of its event. So
/// what a stream does may come before all of the compute stream's commands that
/// no event puts in front of it, as it does on a device whose host runs ahead.
plan::PlanT interleaved(const plan::PlanT &plan, Random &random);

} // namespace fsdp::test

#endif // FSDP_TEST_SIMULATION_INTERLEAVING_H
