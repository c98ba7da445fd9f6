// Tests that every launcher's variables are understood, and bad ones named.
#include "launch/Environment.h"

#include "Error.h"
#include "ErrorKind.h"

#include <gtest/gtest.h>
#include <map>

using namespace fsdp;

namespace {

Variables given(std::map<std::string, std::string> values) {
  return [values](const std::string &name) -> std::optional<std::string> {
    auto value = values.find(name);
    return value == values.end() ? std::nullopt : std::optional(value->second);
  };
}

template <typename Call> std::string refusal(Call call) {
  try {
    call();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

} // namespace

TEST(Membership, NothingSetIsOneRank) {
  Membership me = findMembership(given({}));
  EXPECT_EQ(me.size, 1);
  EXPECT_EQ(me.source, "");
}

TEST(Membership, EachLauncher) {
  for (auto [rank, size, local] :
       {std::tuple("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        std::tuple("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                   "OMPI_COMM_WORLD_LOCAL_RANK"),
        std::tuple("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK"),
        std::tuple("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")}) {
    Membership me =
        findMembership(given({{rank, "5"}, {size, "8"}, {local, "1"}}));
    EXPECT_EQ(me.rank, 5);
    EXPECT_EQ(me.size, 8);
    EXPECT_EQ(me.localRank, 1);
    EXPECT_EQ(me.source, rank);
  }
}

TEST(Membership, TorchrunComesFirst) {
  Membership me = findMembership(given({{"RANK", "1"},
                                        {"WORLD_SIZE", "2"},
                                        {"SLURM_PROCID", "0"},
                                        {"SLURM_NTASKS", "1"}}));
  EXPECT_EQ(me.size, 2);
}

TEST(Membership, BadVariablesAreNamed) {
  auto text = [](std::map<std::string, std::string> values) {
    return refusal([&] { findMembership(given(values)); });
  };
  EXPECT_HAS(text({{"RANK", "0"}}), "WORLD_SIZE");
  EXPECT_HAS(text({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), "RANK");
  EXPECT_HAS(text({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "RANK is 2");
  EXPECT_HAS(text({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), "WORLD_SIZE is 0");
}

TEST(MeetingPoint, Urls) {
  MeetingPoint tcp = parseMeetingPoint("tcp://[::1]:1234", given({}));
  EXPECT_EQ(tcp.host, "::1");
  EXPECT_EQ(tcp.port, 1234);
  EXPECT_EQ(parseMeetingPoint("file:///tmp/x", given({})).path, "/tmp/x");
  std::map<std::string, std::string> variables = {{"MASTER_ADDR", "host"},
                                                  {"MASTER_PORT", "29500"}};
  EXPECT_FALSE(parseMeetingPoint("env://", given(variables)).launcherServes);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_TRUE(parseMeetingPoint("env://", given(variables)).launcherServes);
  for (const char *bad : {"tcp://host", "tcp://host:0", "tcp://host:70000",
                          "tcp://:1", "file://x", "env://", "http://x"})
    EXPECT_EQ(
        test::identifierThrownBy([&] { parseMeetingPoint(bad, given({})); }),
        "FSDP-E0603")
        << bad;
}

TEST(RunKey, TellsRestartsApart) {
  EXPECT_NE(runKey(given({{"TORCHELASTIC_RESTART_COUNT", "1"}})),
            runKey(given({})));
  EXPECT_NE(runKey(given({{"TORCHELASTIC_RUN_ID", "a"}})), runKey(given({})));
}
