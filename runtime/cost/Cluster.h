// The hardware that a step is priced for.
#ifndef FSDP_RUNTIME_COST_CLUSTER_H
#define FSDP_RUNTIME_COST_CLUSTER_H

#include "Error.h"
#include "plan/PlanTypes.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::cost {

/// A cluster that does not exist, or a file that does not describe one.
struct ClusterError : Error {
  explicit ClusterError(const std::string &message)
      : Error(E::Cluster, message) {}
};

/// The way from one rank to the next in a ring, or from a rank to its host.
struct Link {
  double bandwidth = 0; // bytes per second and rank, in one direction
  double latency = 0;   // seconds per step of a ring, or per copy
};

/// What the cost model knows about the machines of a run.
struct Cluster {
  std::string name;
  /// Operations per second of a matrix product, by the dtype it computes in.
  std::map<plan::DType, double> flops;
  double memoryBandwidth = 0;   // bytes per second, read and written
  double launchSeconds = 0;     // of one kernel
  double collectiveSeconds = 0; // of one collective, before its first byte
  double skewSeconds = 0;       // by which ranks reach a point apart
  unsigned ranksPerNode = 1;
  Link intraNode, interNode;
  Link hostLink = {25e9, 10e-6}; // PCIe 4.0 x16

  /// Operations per second in `dtype`; in float32 where it is not listed.
  double flopsPerSecond(plan::DType dtype) const;
};

/// The presets, in the order in which they are documented.
const std::vector<Cluster> &presets();

/// A preset by its name, or the cluster that the TOML file `nameOrPath`
/// describes. Throws ClusterError, which names the key that is wrong.
Cluster findCluster(const std::string &nameOrPath);

/// The cluster that TOML text describes; `source` names it in errors.
///
///     name = "two boxes"
///     ranks_per_node = 8
///     memory_bandwidth = 3.35e12     # bytes per second
///     launch_seconds = 7e-6
///     collective_seconds = 14e-6
///     skew_seconds = 20e-6
///     flops = { float32 = 60e12, bfloat16 = 794e12 }
///     intra_node = { bandwidth = 361e9, latency = 1.9e-6 }
///     inter_node = { bandwidth = 37e9, latency = 4e-6 }
///
///     host_link = { bandwidth = 55e9, latency = 10e-6 }
///
/// `inter_node` may be left out where a run fits one node, and `host_link`
/// where it is PCIe 4.0; every other key is needed.
Cluster parseCluster(const std::string &text, const std::string &source);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_CLUSTER_H
