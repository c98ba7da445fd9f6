// Tests that clusters are found by name or read from TOML, and that errors name
// the key.
#include "cost/Cluster.h"

#include "TemporaryFolder.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::cost;

static const std::string kWhole = R"(
name = "two boxes"
ranks_per_node = 4
memory_bandwidth = 3e12
launch_seconds = 7e-6
collective_seconds = 0
skew_seconds = 0
flops = { float32 = 6e13, bfloat16 = 8e14 }
intra_node = { bandwidth = 3e11, latency = 2e-6 }
inter_node = { bandwidth = 4e10, latency = 4e-6 }
)";

static std::string errorOf(const std::string &text) {
  try {
    parseCluster(text, "box.toml");
  } catch (const ClusterError &error) {
    return error.what();
  }
  return "no error";
}

static std::string replace(std::string text, const std::string &from,
                           const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Cluster, PresetsAreFoundByName) {
  EXPECT_EQ(findCluster("h100x8").ranksPerNode, 8u);
  EXPECT_EQ(findCluster("local").name, "local");
}

TEST(Cluster, AFileDescribesOne) {
  test::TemporaryFolder folder;
  Cluster cluster = findCluster(folder.write("box.toml", kWhole));
  EXPECT_EQ(cluster.name, "two boxes");
  EXPECT_EQ(cluster.ranksPerNode, 4u);
  EXPECT_EQ(cluster.flopsPerSecond(plan::DType::BFloat16), 8e14);
  EXPECT_EQ(cluster.interNode.bandwidth, 4e10);
}

TEST(Cluster, ErrorsNameTheKey) {
  EXPECT_EQ(errorOf(kWhole), "no error");
  EXPECT_EQ(errorOf(replace(kWhole, "memory_bandwidth = 3e12", "")),
            "cluster \"box.toml\": key \"memory_bandwidth\" is missing");
  EXPECT_EQ(errorOf(replace(kWhole, "bandwidth = 4e10", "bandwidth = -1")),
            "cluster \"box.toml\": key \"inter_node.bandwidth\" must be a "
            "number above 0");
  EXPECT_EQ(errorOf(replace(kWhole, "float32 = 6e13", "float32 = \"fast\"")),
            "cluster \"box.toml\": key \"flops.float32\" must be a number "
            "above 0");
  EXPECT_EQ(errorOf(kWhole + "[gpus]\ncount = 1\n"),
            "cluster \"box.toml\": key \"gpus\" does not exist; there are "
            "name, ranks_per_node, memory_bandwidth, launch_seconds, "
            "collective_seconds, skew_seconds, flops, intra_node, inter_node");
  EXPECT_EQ(errorOf(replace(kWhole, "node = 4", "node = 1.5")),
            "cluster \"box.toml\": key \"ranks_per_node\" must be a whole "
            "number");
  EXPECT_NE(errorOf("name = ").find("cluster \"box.toml\" is no TOML: line 1"),
            std::string::npos);
}

TEST(Cluster, AnUnknownNameSaysWhatThereIs) {
  try {
    findCluster("h1000x8");
    FAIL();
  } catch (const ClusterError &error) {
    EXPECT_STREQ(error.what(),
                 "cluster=h1000x8 is neither a preset nor a file; the presets "
                 "are local, a100-40gb-x8, a100x8, h100x8, h100-96gb-x8, "
                 "h200x8, b200x8");
  }
}
