// How long kernels and collectives take.
//
// Figures are for choosing a schedule and for predicting a step, not promises:
// within some 10 % for large operations.
#ifndef FSDP_RUNTIME_COST_COST_H
#define FSDP_RUNTIME_COST_COST_H

#include "cost/Cluster.h"

namespace fsdp::cost {

/// Seconds of a ring collective over `ranks` ranks, which fill one node after
/// the other; with a `stride` there are as many ranks from one to the next.
/// `bytes` are those of the whole buffer: what an all-gather gives, a
/// reduce-scatter takes, and an all-reduce does both with. One rank needs none.
double collectiveSeconds(plan::CollectiveKind kind, double bytes,
                         unsigned ranks, const Cluster &cluster,
                         unsigned stride = 1);

/// Bytes of a whole buffer at which a tenth of a collective's time is spent
/// before its first byte.
double efficientBytes(plan::CollectiveKind kind, unsigned ranks,
                      const Cluster &cluster);

/// Seconds of a copy of `bytes` between a device and its host.
double hostCopySeconds(double bytes, const Cluster &cluster);

/// Seconds of a kernel of `flops` operations in `dtype` that reads and writes
/// `bytes`: the larger of the two at full speed, behind the launch.
double kernelSeconds(double flops, double bytes, plan::DType dtype,
                     const Cluster &cluster);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_COST_H
