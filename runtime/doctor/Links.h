// What the system says of the links between GPUs, network cards and hosts.
#ifndef FSDP_RUNTIME_DOCTOR_LINKS_H
#define FSDP_RUNTIME_DOCTOR_LINKS_H

#include <string>
#include <vector>

namespace fsdp::doctor {

/// A GPU, a network card or a port of RDMA. Empty, and 0 or -1, is what the
/// system does not say.
struct Link {
  std::string kind; // "GPU", "network", "RDMA"
  std::string name; // a GPU's address on PCIe; "eth0"; "mlx5_0 port 1"
  std::string rate; // of a port: "400 Gb/sec (4X NDR), ACTIVE"
  std::string pcie; // of a lane: "16.0 GT/s PCIe"
  int lanes = 0, mostLanes = 0;
  int numaNode = -1;

  /// "eth0 16.0 GT/s PCIe x16, NUMA node 1".
  std::string text() const;
};

/// This host's, by kind and name. `system`: where sysfs is.
std::vector<Link> findLinks(const std::string &system = "/sys");

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_LINKS_H
