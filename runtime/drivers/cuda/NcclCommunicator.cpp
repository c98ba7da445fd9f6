#include "drivers/cuda/NcclCommunicator.h"

#include "Error.h"
#include "drivers/cuda/CudaLibrary.h"
#include "drivers/cuda/NcclAgreement.h"
#include "drivers/cuda/NcclLibrary.h"
#include "drivers/cuda/NcclReduction.h"
#include "plan/Collectives.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

namespace fsdp {

namespace {

class NcclCommunicator final : public DeviceCommunicator {
public:
  NcclCommunicator(Device &device, Communicator &control,
                   const NcclOptions &options)
      : device(device), control(control), options(options),
        rank(control.rank()), size(control.size()) {
    NcclRank mine(device.identity());
    version = mine.nccl;
    std::vector<NcclRank> ranks(size);
    control.allGather(&mine, ranks.data(), sizeof(mine), plan::DType::UInt8);
    checkAgreement(ranks);
    ncclUniqueId id = {};
    if (rank == 0)
      require(nccl.getUniqueId(&id), "open a port for the other ranks");
    control.broadcast(&id, sizeof(id), plan::DType::UInt8, /*root=*/0);
    require(nccl.commInitRank(&world, size, id, rank),
            "connect with the other ranks");
    handles.push_back(world);
  }

  ~NcclCommunicator() override {
    // To destroy is to wait for the others, who may be gone where one failed.
    if (failed || std::uncaught_exceptions())
      abort();
    awaitAbort();
    if (!aborted)
      for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle)
        nccl.commDestroy(*handle);
  }

  std::string transport() const override {
    return "NCCL " + ncclVersionText(version);
  }

  DeviceMemory allocate(uint64_t bytes) override {
    if (!bytes)
      return {};
    std::lock_guard lock(calls);
    refuseAborted();
    Region &region = regions.emplace_back();
    region.memory = allocateShareable(bytes);
    for (ncclComm_t handle : handles)
      enroll(region, handle);
    return {{region.memory.data(), [this](char *block) { release(block); }},
            bytes};
  }

  void prepare(const Transfer &transfer) override {
    std::lock_guard lock(calls);
    refuseAborted();
    Member &member = members[keyOf(transfer)];
    if (!member.handle)
      member.handle = connect(transfer.groupOf(size));
    if (!plan::infoOf(transfer.kind).reduces)
      return;
    NcclReduction how =
        reductionOf(transfer.dtype, transfer.op, transfer.divisor);
    if (transfer.divisor == 1)
      return;
    auto [op, isNew] =
        member.divisions.try_emplace({how.type, transfer.divisor});
    auto factor = factorOf(how.type, transfer.divisor);
    if (isNew)
      require(nccl.redOpCreatePreMulSum(&op->second, factor.data(), how.type,
                                        ncclScalarHostImmediate, member.handle),
              "prepare a division");
  }

  void launch(const Transfer &transfer, unsigned stream) override {
    auto where = static_cast<cudaStream_t>(device.stream(stream));
    std::lock_guard lock(calls);
    refuseAborted();
    const Member &member = members.at(keyOf(transfer));
    const void *from = transfer.source;
    void *to = transfer.destination;
    if (transfer.kind == plan::CollectiveKind::AllGather) {
      size_t bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
      return require(
          nccl.allGather(from, to, bytes, ncclUint8, member.handle, where),
          "all-gather");
    }
    if (transfer.kind == plan::CollectiveKind::AllToAll)
      return exchange(transfer, member.handle, where);
    NcclReduction how =
        reductionOf(transfer.dtype, transfer.op, transfer.divisor);
    if (transfer.divisor != 1)
      how.op = member.divisions.at({how.type, transfer.divisor});
    bool scatters = transfer.kind == plan::CollectiveKind::ReduceScatter;
    auto reduce = scatters ? nccl.reduceScatter : nccl.allReduce;
    require(reduce(from, to, transfer.count * how.numbers, how.type, how.op,
                   member.handle, where),
            scatters ? "reduce-scatter" : "all-reduce");
  }

  std::string whyNotCaptured() const override { return ""; }

  bool agree(bool yes) override {
    int32_t against = !yes;
    control.allReduce(&against, &against, 1, plan::DType::Int32);
    return against == 0;
  }

  void check() override {
    std::lock_guard lock(calls);
    refuseAborted();
    control.check();
    for (ncclComm_t handle : handles) {
      ncclResult_t state = ncclSuccess;
      ncclResult_t result = nccl.commGetAsyncError(handle, &state);
      if (result == ncclSuccess && state != ncclInProgress)
        result = state;
      require(result, "finish its transfers");
    }
  }

  RankWatch *watch() override { return control.watch(); }

  void abort() override {
    if (aborted.exchange(true))
      return;
    // A call in progress is short, or waits for a rank that is gone: then
    // nothing but this wakes it.
    std::unique_lock call(calls, std::chrono::seconds(1));
    std::lock_guard lock(handlesLock);
    // Each waits for what is queued behind the others' transfers, and for the
    // graphs that it is in: all are told before anybody waits.
    for (ncclComm_t handle : handles)
      aborting.emplace_back([this, handle] { nccl.commAbort(handle); });
  }

private:
  /// Where it was aborted: no graph with transfers may be left.
  void awaitAbort() {
    std::vector<std::thread> threads;
    {
      std::lock_guard lock(handlesLock);
      threads.swap(aborting);
    }
    for (std::thread &thread : threads)
      thread.join();
  }

  /// A communicator, and its operations that divide by a number of a type.
  struct Member {
    ncclComm_t handle = nullptr;
    std::map<std::pair<ncclDataType_t, double>, ncclRedOp_t> divisions;
  };

  /// Memory that was given, and what it is called by the communicators.
  struct Region {
    DeviceMemory memory;
    std::vector<std::pair<ncclComm_t, void *>> enrolled;
  };

  using Key = std::pair<unsigned, plan::RankGroup>;

  Key keyOf(const Transfer &transfer) const {
    return {options.single ? 0 : transfer.channel, transfer.groupOf(size)};
  }

  /// An all-to-all, which NCCL before 2.28 has not: as one group of sends and
  /// receives, which is how PyTorch does it.
  void exchange(const Transfer &transfer, ncclComm_t handle,
                cudaStream_t where) {
    size_t bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
    auto *from = static_cast<const char *>(transfer.source);
    auto *to = static_cast<char *>(transfer.destination);
    require(nccl.groupStart(), "all-to-all");
    for (uint32_t i = 0, n = transfer.groupOf(size).size; i < n; ++i) {
      require(nccl.send(from + i * bytes, bytes, ncclUint8, i, handle, where),
              "all-to-all");
      require(nccl.recv(to + i * bytes, bytes, ncclUint8, i, handle, where),
              "all-to-all");
    }
    require(nccl.groupEnd(), "all-to-all");
  }

  /// A communicator of the group. The first of all ranks is there already.
  ncclComm_t connect(const plan::RankGroup &group) {
    if (group.size == size && !worldIsTaken) {
      worldIsTaken = true;
      return world;
    }
    ncclComm_t handle = nullptr;
    // Groups that are made at once have no rank in common.
    require(nccl.commSplit(world, /*color=*/group.first, /*key=*/rank, &handle,
                           /*config=*/nullptr),
            "connect with the ranks of a group");
    for (Region &region : regions)
      enroll(region, handle);
    std::lock_guard lock(handlesLock);
    handles.push_back(handle);
    return handle;
  }

  /// Zeros. NCCL's own memory can be read by other GPUs as it is.
  DeviceMemory allocateShareable(uint64_t bytes) {
    void *block = nullptr;
    if (!nccl.memAlloc || nccl.memAlloc(&block, bytes) != ncclSuccess) {
      cudaGetLastError(); // the Device tells what there is to tell
      return device.allocate(bytes);
    }
    DeviceMemory memory = {{static_cast<char *>(block),
                            [](char *p) { ncclFunctions().memFree(p); }},
                           bytes};
    device.fill(0, block, 0, bytes);
    device.drain();
    return memory;
  }

  void enroll(Region &region, ncclComm_t handle) {
    if (!nccl.commRegister)
      return;
    void *name = nullptr;
    require(nccl.commRegister(handle, region.memory.data(), region.memory.bytes,
                              &name),
            "register memory");
    region.enrolled.push_back({handle, name});
  }

  void release(char *block) {
    // What failed still has a use for the memory, until it is gone.
    if (failed)
      abort();
    awaitAbort();
    std::lock_guard lock(calls);
    auto region = std::find_if(regions.begin(), regions.end(), [&](Region &r) {
      return r.memory.data() == block;
    });
    if (!aborted)
      for (auto [handle, name] : region->enrolled)
        nccl.commDeregister(handle, name);
    regions.erase(region);
  }

  void refuseAborted() const {
    if (aborted)
      throw PeerFailure("rank " + std::to_string(rank) +
                        " has ended its transfers over NCCL");
  }

  /// Throws what NCCL says about what this rank tried.
  void require(ncclResult_t result, const char *what) {
    if (result == ncclSuccess)
      return;
    failed = true;
    std::string text = "rank " + std::to_string(rank) + " cannot " + what +
                       " over NCCL: " + nccl.getErrorString(result);
    // The words come with line breaks of their own.
    std::string details = nccl.getLastError(nullptr);
    std::replace(details.begin(), details.end(), '\n', ' ');
    if (!details.empty())
      text += " (" + details + ")";
    if (aborted || result == ncclRemoteError)
      throw PeerFailure(text);
    throw Error(E::Nccl, text);
  }

  const NcclFunctions &nccl = ncclFunctions();
  Device &device;
  Communicator &control;
  const NcclOptions options;
  const int rank;
  const uint32_t size;
  int version = 0;
  ncclComm_t world = nullptr;
  bool worldIsTaken = false;
  std::map<Key, Member> members;
  std::list<Region> regions;
  std::atomic<bool> failed{false}, aborted{false};
  /// Held while NCCL is called: abort() frees what the calls use.
  std::timed_mutex calls;
  /// All communicators, in the order of their making.
  std::mutex handlesLock;
  std::vector<ncclComm_t> handles;
  std::vector<std::thread> aborting;
};

} // namespace

DeviceCommunicator *openNccl(Device &device, Communicator &control,
                             const NcclOptions &options) {
  return new NcclCommunicator(device, control, options);
}

} // namespace fsdp
