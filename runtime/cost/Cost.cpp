// How long kernels and collectives take.

#include "cost/Cost.h"

#include "plan/Collectives.h"

#include <algorithm>

namespace fsdp::cost {

double collectiveSeconds(plan::CollectiveKind kind, double bytes,
                         unsigned ranks, const Cluster &cluster,
                         unsigned stride) {
  if (ranks <= 1)
    return 0;
  unsigned onNode = std::max(1u, cluster.ranksPerNode / stride);
  unsigned nodes = (ranks + onNode - 1) / onNode;
  unsigned rounds = plan::infoOf(kind).rounds;
  double between = nodes - 1, within = ranks - nodes;
  double steps =
      within * cluster.intraNode.latency + between * cluster.interNode.latency;
  // Every rank passes on all pieces but one.
  double passed = bytes * (ranks - 1) / ranks;
  double transfer = passed / cluster.intraNode.bandwidth;
  if (nodes > 1) {
    // There are as many rings as a node has ranks, and each leaves the node by
    // another one's network card. What is for one rank alone takes its card.
    unsigned fewest = ranks % onNode ? ranks % onNode : onNode;
    double crossing = kind == plan::CollectiveKind::AllToAll
                          ? bytes * (ranks - fewest) / ranks
                          : passed / fewest;
    transfer = std::max(transfer, crossing / cluster.interNode.bandwidth);
  }
  return cluster.collectiveSeconds + rounds * (steps + transfer);
}

double efficientBytes(plan::CollectiveKind kind, unsigned ranks,
                      const Cluster &cluster) {
  double fixed = collectiveSeconds(kind, 0, ranks, cluster);
  double perByte = collectiveSeconds(kind, 1, ranks, cluster) - fixed;
  return perByte > 0 ? 9 * fixed / perByte : 0;
}

double hostCopySeconds(double bytes, const Cluster &cluster) {
  return cluster.hostLink.latency + bytes / cluster.hostLink.bandwidth;
}

double kernelSeconds(double flops, double bytes, plan::DType dtype,
                     const Cluster &cluster) {
  return cluster.launchSeconds + std::max(flops / cluster.flopsPerSecond(dtype),
                                          bytes / cluster.memoryBandwidth);
}

double memorySeconds(double bytes, const Cluster &cluster) {
  return kernelSeconds(0, bytes, plan::DType::Float32, cluster);
}

double updateSeconds(double gradientBytes, double stateBytes,
                     const Cluster &cluster) {
  return memorySeconds(gradientBytes + 2 * stateBytes, cluster);
}

double copySeconds(const CopyWork &work, const Cluster &cluster) {
  return (work.within ? memorySeconds(work.within, cluster) : 0) +
         (work.between ? hostCopySeconds(work.between, cluster) : 0);
}

double callSeconds(const Work &work, std::optional<double> measured,
                   const Cluster &cluster) {
  return measured ? *measured
                  : kernelSeconds(work.flops, work.bytes, work.dtype, cluster);
}

} // namespace fsdp::cost
