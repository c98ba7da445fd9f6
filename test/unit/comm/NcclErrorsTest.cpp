// Tests what is said where NCCL, its ranks or their GPUs are not as they must
// be, and that nobody waits for ever.
#include "DeviceConformance.h"

#include "ErrorKind.h"
#include "drivers/cuda/NcclAgreement.h"
#include "drivers/cuda/NcclLibrary.h"
#include "gpu/imitation/ImitatedNccl.h"

#include <future>

using namespace fsdp;
using namespace fsdp::test;
using plan::CollectiveKind;
using plan::DType;

namespace {

constexpr int64_t count = 100;

template <typename Action> std::string errorOf(Action action) {
  try {
    action();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

/// Ranks on one host, each with a GPU of its own.
std::vector<NcclRank> hosts(int ranks) {
  std::vector<NcclRank> all(ranks, NcclRank("gpu"));
  for (int r = 0; r < ranks; ++r) {
    std::strcpy(all[r].host, r < 2 ? "ant" : "bee");
    all[r].gpu[3] = 'a' + r;
    all[r].nccl = 22809;
    all[r].runtime = all[r].driver = 13000;
  }
  return all;
}

/// Ranks over NCCL, each with a GPU of its own.
std::vector<std::string> onGpus(int ranks, const DeviceBody &body) {
  imitation::Host host;
  host.gpus = ranks;
  imitation::UseHost use(host);
  return onDevices(ranks, ncclDevices<false>(ranks, ranks), body);
}

Transfer sumOf(const DeviceMemory &memory, size_t count = ::count) {
  return {CollectiveKind::AllReduce, memory.data(), memory.data(), count,
          DType::Float32};
}

} // namespace

TEST(NcclLibrary, IsNamedWithItsVersion) {
  EXPECT_EQ(ncclVersionText(22809), "2.28.9");
  EXPECT_EQ(ncclVersionText(2708), "2.7.8");
  EXPECT_EQ(describeNccl(), "NCCL " + ncclVersionText(NCCL_VERSION_CODE));
}

TEST(NcclLibrary, OfAnOldVersionIsRefused) {
  EXPECT_EQ(errorOf([] { checkNcclVersion(22104); }), "");
  std::string error = errorOf([] { checkNcclVersion(21705); });
  EXPECT_EQ(error.find("NCCL 2.17.5 is too old, 2.18 is needed; "), 0u)
      << error;
}

TEST(NcclLibrary, ThatIsThereTwiceIsRefusedWithBothFiles) {
  EXPECT_EQ(errorOf([] { checkOneNccl({"/a/libnccl.so.2"}); }), "");
  EXPECT_EQ(
      errorOf([] {
        checkOneNccl({"/a/libnccl.so.2", "/b/libnccl.so"});
      }),
      "this process has two copies of NCCL, /a/libnccl.so.2 and /b/libnccl.so; "
      "take one of them from LD_LIBRARY_PATH and LD_PRELOAD");
  EXPECT_EQ(identifierThrownBy([] { checkNcclVersion(21705); }), "FSDP-E1004");
}

TEST(NcclAgreement, RanksOfOneKindAgree) {
  EXPECT_EQ(errorOf([] { checkAgreement(hosts(4)); }), "");
}

TEST(NcclAgreement, AnotherVersionIsRefusedWithBothRanks) {
  auto ranks = hosts(4);
  ranks[2].nccl = 22703;
  EXPECT_EQ(errorOf([&] { checkAgreement(ranks); }),
            "rank 0 on ant has NCCL 2.28.9, CUDA 13.0 and a driver for CUDA "
            "13.0, rank 2 on bee has NCCL 2.27.3, CUDA 13.0 and a driver for "
            "CUDA 13.0; install the same on all hosts");
}

TEST(NcclAgreement, RanksThatShareAGpuAreRefused) {
  auto ranks = hosts(4);
  std::strcpy(ranks[3].gpu, ranks[2].gpu);
  EXPECT_EQ(errorOf([&] { checkAgreement(ranks); }),
            "ranks 2 and 3 on bee have one GPU, which NCCL forbids; start as "
            "many ranks as there are GPUs, give each its own in "
            "CUDA_VISIBLE_DEVICES, or run with --threads, where ranks may "
            "share one");
  // The first GPU of another host is another one.
  ranks = hosts(4);
  std::strcpy(ranks[3].gpu, ranks[0].gpu);
  EXPECT_EQ(errorOf([&] { checkAgreement(ranks); }), "");
}

/// All ranks say what is wrong, not that others have failed.
TEST(NcclErrors, RanksOfDifferentVersionsDoNotConnect) {
  auto errors = onRanks(2, connector({false, false, 2}), [](Communicator &c) {
    imitation::UseNccl use(c.rank() ? 22703 : 22809);
    auto device = imitation::openDevice(0, 2);
    imitation::connectNccl(*device, c, {});
  });
  for (const std::string &error : errors)
    EXPECT_NE(error.find("has NCCL 2.27.3"), std::string::npos) << error;
}

TEST(NcclErrors, RanksOnOneGpuDoNotConnect) {
  auto errors = onRanks(2, connector({false, false, 2}), [](Communicator &c) {
    auto device = imitation::openDevice(0, 2);
    imitation::connectNccl(*device, c, {});
  });
  for (const std::string &error : errors)
    EXPECT_EQ(error.find("ranks 0 and 1 on "), 0u) << error;
}

TEST(NcclErrors, WhatItSaysIsOneLineWithTheRank) {
  auto errors = onGpus(1, [](DeviceRank &rank) {
    DeviceMemory memory = rank.communicator->allocate(count * 4);
    imitation::failNccl(ncclUnhandledCudaError);
    launch(rank, sumOf(memory), 1);
    rank.device->drain();
  });
  EXPECT_EQ(errors[0], "rank 0 cannot all-reduce over NCCL: unhandled cuda "
                       "error (it was told to fail)");
}

TEST(NcclErrors, MemoryThatItDoesNotHaveComesFromTheDevice) {
  auto errors = onGpus(1, [](DeviceRank &rank) {
    imitation::failNccl(ncclUnhandledCudaError);
    DeviceMemory memory = rank.communicator->allocate(1000);
    EXPECT_EQ(memory.bytes, 1000u);
    std::string error =
        errorOf([&] { rank.communicator->allocate(uint64_t(1) << 50); });
    EXPECT_NE(error.find("are free"), std::string::npos) << error;
  });
  EXPECT_EQ(errors[0], "");
}

TEST(NcclErrors, AnOldVersionHasNoMemoryOfItsOwn) {
  auto errors = onGpus(1, [](DeviceRank &rank) {
    imitation::UseNccl use(21805);
    auto old = imitation::connectNccl(*rank.device, *rank.control, {});
    EXPECT_EQ(old->transport(), "NCCL 2.18.5");
    DeviceMemory memory = old->allocate(1000);
    EXPECT_EQ(imitation::ncclInUse().registrations, 0);
    old->prepare(sumOf(memory));
    old->launch(sumOf(memory), 1);
    rank.device->drain();
  });
  EXPECT_EQ(errors[0], "");
}

TEST(NcclErrors, ThatComeLaterAreSeenByCheck) {
  auto errors = onGpus(2, [](DeviceRank &rank) {
    DeviceMemory memory = rank.communicator->allocate(count * 4);
    rank.communicator->prepare(sumOf(memory));
    rank.communicator->check();
    if (rank.rank == 1)
      imitation::failTransfer(ncclRemoteError);
    rank.communicator->launch(sumOf(memory), 1);
    if (rank.rank == 1) {
      EXPECT_THROW(rank.communicator->check(), PeerFailure);
    }
    rank.control->barrier();
    // The other one's is never to end but by this.
    rank.communicator->abort();
  });
  EXPECT_EQ(errors[0], "rank 0 has ended its transfers over NCCL");
}

TEST(NcclErrors, RanksThatLaunchDifferentTransfersAreFoundOut) {
  auto errors = onGpus(2, [](DeviceRank &rank) {
    DeviceMemory memory = rank.communicator->allocate(count * 4);
    launch(rank, sumOf(memory, count - rank.rank), 1);
    rank.device->drain();
  });
  for (const std::string &error : errors)
    EXPECT_NE(error.find("ranks launch transfers of different counts"),
              std::string::npos)
        << error;
}

/// A sum that both ranks have prepared. Then rank 1 fails, and launches nothing
/// that the other one waits for.
static Transfer prepareAndLoseOne(DeviceRank &rank,
                                  const DeviceMemory &memory) {
  rank.communicator->prepare(sumOf(memory));
  rank.control->barrier();
  if (rank.rank == 1)
    throw Error(E::Unexpected, "this rank has failed");
  return sumOf(memory);
}

/// As whoever watches the others does. Ends with its scope.
static std::future<void> abortWhenAlone(DeviceRank &rank) {
  return std::async(std::launch::async, [&] {
    EXPECT_THROW(rank.control->barrier(), PeerFailure);
    rank.communicator->abort();
    rank.communicator->abort();
  });
}

TEST(NcclAbort, EndsATransferThatAnotherRankNeverLaunches) {
  auto errors = onGpus(2, [](DeviceRank &rank) {
    DeviceMemory memory = rank.communicator->allocate(count * 4);
    Transfer sum = prepareAndLoseOne(rank, memory);
    rank.communicator->launch(sum, 1);
    auto watch = abortWhenAlone(rank);
    rank.device->drain();
    watch.get();
    EXPECT_THROW(rank.communicator->check(), PeerFailure);
    EXPECT_THROW(rank.communicator->launch(sum, 1), PeerFailure);
  });
  EXPECT_EQ(errors[0], "rank 0 has ended its transfers over NCCL");
  EXPECT_EQ(errors[1], "this rank has failed");
  EXPECT_EQ(imitation::ncclInUse().communicators, 0);
}

/// The host waits in a launch, since its stream is the caller's; or throws,
/// where it comes behind the abort.
TEST(NcclAbort, EndsACallThatWaits) {
  auto errors = onGpus(2, [](DeviceRank &rank) {
    DeviceMemory memory = rank.communicator->allocate(count * 4);
    Transfer sum = prepareAndLoseOne(rank, memory);
    auto watch = abortWhenAlone(rank);
    rank.communicator->launch(sum, 0);
  });
  EXPECT_EQ(errors[0], "rank 0 has ended its transfers over NCCL");
}

TEST(NcclMemory, IsRegisteredWithEveryCommunicatorAndLetGoBefore) {
  auto errors = onGpus(2, [](DeviceRank &rank) {
    {
      DeviceMemory memory = rank.communicator->allocate(count * 4);
      Transfer sum = sumOf(memory);
      launch(rank, sum, 1);
      sum.channel = 1;
      launch(rank, sum, 1);
      rank.device->drain();
      rank.control->barrier();
      EXPECT_EQ(imitation::ncclInUse().communicators, 4);
      EXPECT_EQ(imitation::ncclInUse().registrations, 4);
      rank.control->barrier();
    }
    rank.control->barrier();
    EXPECT_EQ(imitation::ncclInUse().registrations, 0);
  });
  for (const std::string &error : errors)
    EXPECT_EQ(error, "");
  EXPECT_EQ(imitation::ncclInUse().communicators, 0);
}
