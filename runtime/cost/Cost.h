// How long kernels and collectives take.
//
// Figures are for choosing a schedule and for predicting a step, not promises:
// within some 10 % for large operations.
#ifndef FSDP_RUNTIME_COST_COST_H
#define FSDP_RUNTIME_COST_COST_H

#include "cost/Cluster.h"
#include "cost/Work.h"

#include <optional>

namespace fsdp::cost {

/// Seconds of a ring collective over `ranks` ranks, which fill one node after
/// the other; with a `stride` there are as many ranks from one to the next.
/// `bytes` are those of the whole buffer: what an all-gather gives, a
/// reduce-scatter takes, and an all-reduce does both with; of an all-to-all,
/// what a rank sends, its own piece included. One rank needs none.
///
/// As NCCL prices its rings (src/graph/tuning.cc): of R - 1 steps as many are
/// over the network as there are nodes besides the first, and (R - 1) / R of
/// the bytes pass each link. Rings run side by side, one for each rank of a
/// node, so that a node's network cards together are one link.
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

/// Seconds of a kernel that only reads and writes `bytes`.
double memorySeconds(double bytes, const Cluster &cluster);

/// Seconds of an optimizer's update: it reads the gradient, and reads and
/// writes the parameter and the states.
double updateSeconds(double gradientBytes, double stateBytes,
                     const Cluster &cluster);

/// What a copy of several pieces moves, one kernel for those within an arena,
/// and one transfer for those between device and host.
struct CopyWork {
  double within = 0;  // bytes read and written by the kernel
  double between = 0; // bytes that cross the link to the host

  /// Adds a piece that is filled with zeros.
  void fill(double bytes) { within += bytes; }
  /// Adds a piece that is copied.
  void copy(double bytes, bool sameArena) {
    (sameArena ? within : between) += sameArena ? 2 * bytes : bytes;
  }
};

/// Seconds of such a copy; what is not there takes none.
double copySeconds(const CopyWork &work, const Cluster &cluster);

/// Seconds of a call of an operator: those that its kernel was `measured` to
/// take, on whichever cluster, or of a kernel that does so much work.
double callSeconds(const Work &work, std::optional<double> measured,
                   const Cluster &cluster);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_COST_H
