#include "plan/check/ReductionChecker.h"

#include "plan/Collectives.h"
#include "plan/GradientDivisors.h"

using namespace fsdp::plan;

void fsdp::plan::checkReduction(const Checked &here, const PlanT &plan,
                                const CollectiveT &collective, Norm norm) {
  bool reduces = infoOf(collective.kind).reduces;
  bool isMax = collective.op == ReduceOp::Max;
  here.require(C1, collective.op <= ReduceOp::MAX, "its operation is unknown");
  here.require(C14, !reduces || isReducible(collective.dtype, collective.op),
               "reduces ", dtypeName(collective.dtype));
  if (collective.of_step) {
    here.require(C14,
                 collective.kind == CollectiveKind::AllReduce && !isMax &&
                     collective.divisor == 1 && collective.unit == -1,
                 "is of the step itself, which has sums of its own tensors and "
                 "divides none");
    return;
  }
  here.require(C14, !isMax || collective.kind == CollectiveKind::AllReduce,
               "takes a maximum, which only an all-reduce does");
  // A truth is 1 or 0, and either may be taken of it.
  here.require(C26, norm == Norm::Truth || isMax == (norm == Norm::Largest),
               "takes a ", isMax ? "maximum" : "sum", " of what is ",
               norm == Norm::Largest ? "the largest" : "no maximum",
               " on each rank");
  // Gradients are summed over shards, then over replicas; what comes last
  // makes the mean of all.
  bool replicated = numRanks(plan) > numShards(plan);
  bool overReplicas = isOver(plan, collective, AxisRole::Replicate);
  bool isGradient = !isMax && norm != Norm::Sum;
  bool isMean = collective.kind == CollectiveKind::ReduceScatter
                    ? !replicated
                    : collective.kind == CollectiveKind::AllReduce &&
                          isGradient && overReplicas;
  double of = gradientDivisor(plan, collective.unit);
  double divisor = isMean ? gradientDivisors(collective.dtype, of).after : 1;
  here.require(C14, collective.divisor == divisor, "divides by ",
               collective.divisor, ", not ", divisor);
  here.require(C14, collective.divisor == 1 || isFloating(collective.dtype),
               "divides ", dtypeName(collective.dtype));
}
