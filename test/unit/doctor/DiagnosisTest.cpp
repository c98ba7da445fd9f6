// Tests that what will fail or be slow is named, with its host and a remedy.
#include "doctor/Diagnosis.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp::doctor;

namespace {

/// Two hosts of one rank each, on which nothing is wrong.
std::vector<RankReport> twoHosts() {
  std::vector<RankReport> ranks(2);
  for (int i = 0; i < 2; ++i) {
    RankReport &rank = ranks[i];
    rank.rank = i;
    rank.flops = 10e9;
    HostFacts &facts = rank.facts;
    facts.host = facts.machine = i ? "beta" : "alpha";
    facts.version = "0.1.0";
    facts.pytorch = "2.11.0";
    facts.cores = facts.coresOfHost = 4;
    facts.sharedMemory = {1u << 30, 1u << 30};
    facts.interfaces = {{"eth0", {i ? "10.0.0.2" : "10.0.0.1"}, 1500, true},
                        {"eth1", {i ? "10.9.0.2" : "10.9.0.1"}, 9000, true},
                        {"lo", {"127.0.0.1"}, 65536, true, true}};
    facts.listens = facts.reaches = facts.interfaces[0].addresses[0];
    TransportFigures gloo;
    gloo.transport = "Gloo";
    gloo.isNeeded = true;
    rank.transports = {gloo};
  }
  return ranks;
}

/// "problem: ..." and "note: ...", a line each.
std::string say(const std::vector<RankReport> &ranks) {
  std::string text;
  for (const Finding &finding : diagnose(ranks))
    text += (finding.severity == Severity::Problem ? "problem: " : "note: ") +
            finding.text + "\n";
  return text;
}

void expectFinding(const std::vector<RankReport> &ranks,
                   const std::string &part) {
  std::string text = say(ranks);
  EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

} // namespace

TEST(Diagnosis, NothingIsWrong) { EXPECT_EQ(say(twoHosts()), ""); }

TEST(Diagnosis, LanesThatAreMissing) {
  auto ranks = twoHosts();
  ranks[1].facts.links = {{"GPU", "0000:17:00.0", "", "16.0 GT/s PCIe", 8, 16}};
  expectFinding(ranks, "note: GPU 0000:17:00.0 on beta has 8 of its 16 lanes");
}

TEST(Diagnosis, VersionsThatDiffer) {
  auto ranks = twoHosts();
  ranks[1].facts.version = "0.2.0";
  expectFinding(ranks,
                "problem: hosts differ in fsdp-run: alpha has 0.1.0, beta has "
                "0.2.0; install the same version on all hosts");
  ranks = twoHosts();
  ranks[1].facts.pytorch = "2.10.0";
  expectFinding(ranks,
                "problem: hosts differ in PyTorch: alpha has 2.11.0, beta has");
}

TEST(Diagnosis, VariablesThatDiffer) {
  auto ranks = twoHosts();
  ranks[0].facts.variables["OMP_NUM_THREADS"] = "2";
  expectFinding(ranks, "note: OMP_NUM_THREADS is '2' on alpha and is not set "
                       "on beta; set it alike");
}

TEST(Diagnosis, AddressThatOthersDoNotReach) {
  auto ranks = twoHosts();
  ranks[1].facts.listens = "127.0.1.1"; // Debian's, of a host's name
  std::string finding = "beta listens for other hosts at 127.0.1.1 (lo), which "
                        "they cannot reach: that is the address of its name; "
                        "set GLOO_SOCKET_IFNAME=eth0 there";
  expectFinding(ranks, "note: " + finding);
  ranks[0].transports[0].error = "refused";
  EXPECT_NE(say(ranks).find("problem: " + finding), std::string::npos);
}

TEST(Diagnosis, AnotherInterfaceThanTheRendezvous) {
  auto ranks = twoHosts();
  for (RankReport &rank : ranks)
    rank.facts.listens = rank.facts.interfaces[1].addresses[0];
  std::string text = say(ranks);
  EXPECT_NE(text.find("note: beta listens for other hosts on eth1 (10.9.0.2) "
                      "and reaches the rendezvous by eth0"),
            std::string::npos)
      << text;
}

TEST(Diagnosis, InterfaceThatIsNone) {
  auto ranks = twoHosts();
  for (RankReport &rank : ranks)
    rank.facts.variables["GLOO_SOCKET_IFNAME"] = "eth0";
  ranks[1].facts.interfaces[0].name = "ens3";
  ranks[1].facts.listens = "";
  ranks[1].transports[0].error = "no such interface";
  std::string text = say(ranks);
  EXPECT_NE(text.find("problem: GLOO_SOCKET_IFNAME is 'eth0' on beta, whose "
                      "interfaces with an address are ens3, eth1, lo; set it "
                      "to ens3"),
            std::string::npos)
      << text;
}

TEST(Diagnosis, MtuThatDiffers) {
  auto ranks = twoHosts();
  ranks[0].facts.interfaces[0].mtu = 9000;
  expectFinding(ranks,
                "note: hosts differ in the MTU of the interface between them: "
                "alpha has 9000, beta has 1500");
}

TEST(Diagnosis, LargePacketsThatAreLost) {
  auto ranks = twoHosts();
  ranks[0].transports[0].error = "rank 1 has kept rank 0 waiting";
  ranks[0].transports[0].reached = 4;
  expectFinding(ranks, "problem: collectives over Gloo did not end on rank 0 "
                       "(rank 1 has kept rank 0 waiting), though 4 bytes did; "
                       "are large packets lost on the way?");
}

TEST(Diagnosis, RanksThatAreNotConnected) {
  auto ranks = twoHosts();
  ranks[1].transports[0].error = "refused";
  expectFinding(ranks, "problem: collectives over Gloo cannot begin on rank 1 "
                       "(refused); does a firewall let TCP through");
  // Ranks that share memory do not need it.
  for (RankReport &rank : ranks)
    rank.transports[0].isNeeded = false;
  EXPECT_EQ(say(ranks), "");
}

TEST(Diagnosis, SlowRank) {
  auto ranks = twoHosts();
  ranks[1].flops = 4e9;
  expectFinding(ranks, "note: rank 1 on beta computes 4.0 GFLOP/s where the "
                       "fastest rank has 10.0");
}

TEST(Diagnosis, MoreRanksThanTheQuotaHasCores) {
  auto ranks = twoHosts();
  ranks[1].facts.quota = 0.5;
  expectFinding(ranks, "note: 1 rank on beta has 0.5 cores' worth of time (a "
                       "cgroup's quota); start fewer ranks\n");
}

TEST(Diagnosis, ClockThatIsWrong) {
  auto ranks = twoHosts();
  ranks[1].clockSeconds = -90;
  expectFinding(ranks,
                "note: the clock of beta is 90.0 s behind that of alpha");
}

TEST(Diagnosis, TwoCopiesOfNccl) {
  auto ranks = twoHosts();
  ranks[0].facts.nccl = {"/a/libnccl.so.2", "/b/libnccl.so.2"};
  expectFinding(ranks, "problem: alpha has loaded two copies of NCCL, "
                       "/a/libnccl.so.2 and /b/libnccl.so.2; drop the one");
}

TEST(Diagnosis, LittleSharedMemory) {
  auto ranks = twoHosts();
  ranks[1].facts.sharedMemory = {1u << 20, 64u << 20};
  expectFinding(ranks, "note: /dev/shm of beta has less than 64 MiB free");
}
