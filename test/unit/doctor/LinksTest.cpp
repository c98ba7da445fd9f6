// Tests that links are found where the system has them.
#include "doctor/Links.h"
#include "TemporaryFolder.h"

#include <gtest/gtest.h>

using namespace fsdp::doctor;

namespace {

/// A sysfs with some devices.
struct System : fsdp::test::TemporaryFolder {
  void put(const std::string &file, const std::string &line) const {
    std::filesystem::create_directories(
        std::filesystem::path(*this / file).parent_path());
    write(file, line + "\n");
  }
  void plugIn(const std::string &device, const std::string &lanes) const {
    put(device + "/current_link_speed", "16.0 GT/s PCIe");
    put(device + "/current_link_width", lanes);
    put(device + "/max_link_width", "16");
    put(device + "/numa_node", "1");
  }
};

} // namespace

TEST(Links, AreThoseOfGpusAndCards) {
  System system;
  const std::string gpu = "bus/pci/devices/0000:17:00.0";
  system.plugIn(gpu, "8");
  system.put(gpu + "/vendor", "0x10de");
  system.put(gpu + "/class", "0x030200");
  system.put("bus/pci/devices/0000:00:00.0/vendor", "0x8086");
  system.plugIn("class/net/eth0/device", "16");
  system.put("class/net/lo/mtu", "65536");
  const std::string adapter = "class/infiniband/mlx5_0";
  system.put(adapter + "/ports/1/rate", "400 Gb/sec (4X NDR)");
  system.put(adapter + "/ports/1/state", "4: ACTIVE");
  system.put(adapter + "/device/numa_node", "-1");

  std::string text;
  for (const Link &link : findLinks(system.path))
    text += link.kind + " " + link.text() + "\n";
  EXPECT_EQ(text, "GPU 0000:17:00.0 16.0 GT/s PCIe x8 of 16, NUMA node 1\n"
                  "network eth0 16.0 GT/s PCIe x16, NUMA node 1\n"
                  "RDMA mlx5_0 port 1 400 Gb/sec (4X NDR), ACTIVE\n");
}

TEST(Links, AreNoneWhereTheSystemSaysNothing) {
  EXPECT_TRUE(findLinks("/no/such/folder").empty());
}
