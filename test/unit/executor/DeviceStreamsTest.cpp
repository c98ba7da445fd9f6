// Tests that a host which waits for its GPU learns which rank has not come to a
// collective, and in which: over an imitated NCCL, and where ranks are threads.
#include "executor/DeviceStreams.h"

#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "comm/RankWatch.h"
#include "comm/SharedMemoryCommunicator.h"
#include "drivers/cuda/NcclCommunicator.h"
#include "gpu/imitation/ImitatedCuda.h"
#include "gpu/imitation/ImitatedDevice.h"
#include "gpu/imitation/ImitatedKernels.h"
#include "gpu/imitation/Streams.h"
#include "plan/PlanTypes.h"

#include <future>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace fsdp;

namespace {

constexpr int ranks = 2;
constexpr unsigned transferStream = 1, numStreams = 3;

enum class Between { Nccl, Copies };

/// Two hosts with a GPU each, or two threads of one; rank 1 comes to the first
/// of two collectives.
class LateRank {
public:
  explicit LateRank(Between kind = Between::Nccl) : kind(kind) {}

  /// What rank 0 throws when it waits for its GPU. `ahead`: it has begun the
  /// next run when it does.
  std::string reasonOf(bool ahead) {
    imitation::Host host;
    host.gpus = ranks;
    imitation::UseHost use(host);
    std::string reason;
    std::promise<void> over;
    std::shared_future<void> ended = over.get_future().share();
    std::thread late([&] {
      run(1, [&](Streams &streams, const Transfer &transfer) {
        launch(streams, transfer);
        streams.await(streams.mark());
        if (hangs) {
          imitation::launch(transferQueue, [&] { ended.wait(); });
          launch(streams, transfer);
        }
        ended.wait();
      });
    });
    run(0, [&](Streams &streams, const Transfer &transfer) {
      launch(streams, transfer);
      streams.await(streams.mark());
      try {
        launch(streams, transfer);
        uint64_t mark = streams.mark();
        if (ahead)
          launch(streams, transfer);
        streams.await(mark);
      } catch (const PeerFailure &failure) {
        reason = failure.what();
        if (hangs) // so that its streams can be given back
          over.set_value();
      }
    });
    if (!hangs)
      over.set_value();
    late.join();
    return reason;
  }
  std::vector<std::string> notes;
  std::string told; // at the deadline
  /// Rank 1 launches the second one too, behind a kernel that does not end.
  bool hangs = false;

private:
  template <typename Body> void run(int rank, const Body &body) {
    Patience patience(std::chrono::seconds(2));
    patience.noteAfter = std::chrono::seconds(1);
    patience.atLimit = [this](const std::string &why) { told = why; };
    patience.note = [this, rank](const std::string &text) {
      if (rank == 0)
        notes.push_back(text);
    };
    auto control =
        createSharedMemoryCommunicator(*store, rank, ranks, patience);
    auto device = imitation::openDevice(rank, numStreams);
    // As a GPU's, which does not keep the host.
    auto compute = static_cast<cudaStream_t>(device->stream(0));
    imitation::setInCaller(compute, false);
    auto transfers = static_cast<cudaStream_t>(device->stream(transferStream));
    imitation::setInCaller(transfers, false);
    if (rank == 1)
      transferQueue = transfers;
    auto kernels = imitation::openKernels(*device);
    auto between = kind == Between::Nccl
                       ? imitation::connectNccl(*device, *control, {})
                       : createLocalDeviceCommunicator(
                             group, rank, *device, *kernels, control->watch());
    DeviceMemory memory = between->allocate(128);
    Transfer transfer{plan::CollectiveKind::AllReduce, memory.data(),
                      memory.data(), 8, plan::DType::Float32};
    if (kind == Between::Copies) { // imitated kernels keep the host
      transfer.kind = plan::CollectiveKind::AllGather;
      transfer.destination = memory.data() + 64;
    }
    transfer.channel = 1;
    transfer.name = "all-reduce of blocks.3 (backward)";
    between->prepare(transfer);
    auto streams = makeDeviceStreams(*device, *between, numStreams, 1);
    body(*streams, transfer);
    between->abort();
  }

  void launch(Streams &streams, const Transfer &transfer) {
    static const std::string name = "reduce";
    streams.begin(1);
    streams.transfer(transferStream, transfer, name);
    streams.record(transferStream, 0);
    streams.wait(plan::computeStream, 0);
    streams.end();
  }

  Between kind;
  cudaStream_t transferQueue = nullptr; // rank 1's
  std::shared_ptr<LocalRanks> group = std::make_shared<LocalRanks>(ranks);
  c10::intrusive_ptr<c10d::Store> store =
      c10::make_intrusive<c10d::HashStore>();
};

void expectHas(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

} // namespace

TEST(DeviceStreams, ARankThatDoesNotComeIsNamed) {
  LateRank late;
  std::string reason = late.reasonOf(/*ahead=*/false);
  expectHas(reason, "rank 1 has kept rank 0 waiting for ");
  expectHas(reason, ", in all-reduce of blocks.3 (backward): its process ");
  expectHas(reason, "began its last such collective, all-reduce of blocks.3");
  ASSERT_EQ(late.notes.size(), 1u);
  expectHas(late.notes[0], "rank 1 has kept rank 0 waiting for ");
}

TEST(DeviceStreams, SoItIsWhereTheHostIsARunAhead) {
  std::string reason = LateRank().reasonOf(/*ahead=*/true);
  expectHas(reason, "rank 1 has kept rank 0 waiting for ");
  expectHas(reason, ", in a collective that a GPU was given: its process ");
}

TEST(DeviceStreams, AThreadThatDoesNotComeIsNamed) {
  LateRank late(Between::Copies);
  std::string reason = late.reasonOf(/*ahead=*/false);
  expectHas(reason, "rank 1 has kept rank 0 waiting for ");
  expectHas(reason, ", in all-reduce of blocks.3 (backward): its process ");
  ASSERT_EQ(late.notes.size(), 1u);
}

TEST(DeviceStreams, AGpuOfAThreadThatHangsIsNoticed) {
  LateRank late(Between::Copies);
  late.hangs = true;
  std::string reason = late.reasonOf(/*ahead=*/false);
  expectHas(reason, "rank 1 has kept rank 0 waiting for ");
  expectHas(reason, "began it ");
  expectHas(reason, ", but does not go on with it");
  EXPECT_EQ(late.told, reason);
}
