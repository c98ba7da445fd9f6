#include "comm/LocalDeviceCommunicator.h"

#include "Error.h"
#include "comm/LocalRanks.h"
#include "comm/LongWait.h"
#include "comm/Reduce.h"
#include "comm/TransferPieces.h"
#include "comm/TransferSignature.h"
#include "device/Kernels.h"
#include "device/ScalarType.h"
#include "device/TensorAt.h"
#include "plan/Collectives.h"

#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/maximum.h>
#include <algorithm>
#include <map>
#include <stdexcept>

namespace fsdp {

namespace {

using Posts = LocalRanks::Posts;

/// In which a kernel divides numbers of `dtype`, before it rounds.
at::ScalarType dividesIn(plan::DType dtype) {
  at::ScalarType type = toScalarType(dtype);
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

class LocalDeviceCommunicator final : public DeviceCommunicator {
public:
  LocalDeviceCommunicator(std::shared_ptr<LocalRanks> all, int rank,
                          Device &device, Kernels &kernels, RankWatch *watch)
      : ranks(std::move(all)), rank(rank), device(device), kernels(kernels),
        watching(watch), sumIsFree(device.makeEvent()) {
    LocalRanks::Post post;
    post.gpu = device.identity();
    Posts posts = ranks->exchange(groupOf(post.transfer), rank, post);
    for (const LocalRanks::Post &other : *posts)
      isNear.push_back(other.gpu == post.gpu);
  }

  ~LocalDeviceCommunicator() override { ranks->leave(rank); }

  std::string transport() const override { return "copies between threads"; }

  DeviceMemory allocate(uint64_t bytes) override {
    return device.allocate(bytes);
  }

  void prepare(const Transfer &transfer) override {
    checkReduction(transfer);
    if (!plan::infoOf(transfer.kind).reduces)
      return;
    uint64_t bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
    grow(sum, bytes);
    if (std::count(isNear.begin(), isNear.end(), false))
      grow(fetched, bytes);
    if (transfer.divisor != 1)
      makeDivisor(transfer);
  }

  void launch(const Transfer &transfer, unsigned stream) override {
    checkReduction(transfer);
    plan::RankGroup group = groupOf(transfer);
    if (group.size == 1)
      return writeResult(transfer, transfer.source, stream);
    // Behind what wrote the sources, on all ranks.
    Posts posts = meet(transfer, stream);
    auto mine = TransferSignature::of(transfer);
    for (uint32_t i = 0; i < group.size; ++i)
      requireSame(transfer.name, rank, mine, group[i],
                  TransferSignature::of((*posts)[i].transfer));
    bool reduces = plan::infoOf(transfer.kind).reduces;
    if (!reduces)
      gather(transfer, group, *posts, stream);
    else
      addUp(transfer, group, *posts, stream);
    // Now all have been read, and may be overwritten: by the result first.
    meet(transfer, stream);
    if (!reduces)
      return;
    writeResult(transfer, sum.data(), stream);
    device.recordShared(stream, sumIsFree.get());
  }

  std::string whyNotCaptured() const override {
    if (ranks->size() == 1)
      return "";
    return "ranks that are threads of one process tell each other with every "
           "launch where their memory is";
  }

  void check() override { ranks->check(); }
  RankWatch *watch() override { return watching; }
  void abort() override { ranks->fail(rank); }

private:
  plan::RankGroup groupOf(const Transfer &transfer) const {
    return transfer.groupOf(static_cast<uint32_t>(ranks->size()));
  }

  /// The stream goes on behind what is now on those of all ranks of the group.
  Posts meet(const Transfer &transfer, unsigned stream) {
    // An event of its own, since nobody knows when the last one waits for it.
    LocalRanks::Post post;
    post.transfer = transfer;
    post.event = device.makeEvent();
    device.recordShared(stream, post.event.get());
    LongWait wait;
    std::function<void()> look;
    if (watching)
      look = [&] { wait.look(*watching, [&] { return asAwaited(transfer); }); };
    Posts posts = ranks->exchange(groupOf(transfer), rank, post, look);
    for (const LocalRanks::Post &other : *posts)
      if (other.event != post.event)
        device.waitShared(stream, other.event.get());
    return posts;
  }

  /// The newest of its channel, as who launches it has counted.
  AwaitedTransfer asAwaited(const Transfer &transfer) const {
    return {transfer.name, transfer.channel,
            watching->progress().channels[transfer.channel].started,
            groupOf(transfer)};
  }

  /// What each rank has for all, or for this one.
  void gather(const Transfer &transfer, plan::RankGroup group,
              const std::vector<LocalRanks::Post> &of, unsigned stream) {
    size_t bytes = plan::dtypeBytes(transfer.dtype);
    TransferPieces pieces(transfer, group.size);
    size_t offset = pieces.sourceOf(group.indexOf(rank)) * bytes;
    for (uint32_t i = 0; i < group.size; ++i) {
      auto *from = static_cast<const char *>(of[i].transfer.source) + offset;
      auto *to = static_cast<char *>(transfer.destination) +
                 pieces.destinationOf(i) * bytes;
      if (pieces.gives(i) && to != from)
        device.copy(stream, to, from, transfer.count * bytes);
    }
  }

  /// Into `sum`: the sources may be somebody's destinations.
  void addUp(const Transfer &transfer, plan::RankGroup group,
             const std::vector<LocalRanks::Post> &of, unsigned stream) {
    uint64_t bytes = transfer.count * plan::dtypeBytes(transfer.dtype);
    size_t offset =
        TransferPieces(transfer, group.size).sourceOf(group.indexOf(rank)) *
        plan::dtypeBytes(transfer.dtype);
    if (sum.bytes < bytes)
      throw Error(E::Collective, "a transfer was launched and not prepared");
    auto source = [&](uint32_t i) {
      return static_cast<const char *>(of[i].transfer.source) + offset;
    };
    // What another stream may still read of the transfer before.
    device.waitShared(stream, sumIsFree.get());
    device.copy(stream, sum.data(), source(0), bytes);
    UseStream use(kernels, stream);
    at::Tensor result = tensor(sum.data(), transfer);
    for (uint32_t i = 1; i < group.size; ++i) {
      const char *operand = source(i);
      if (!isNear[group[i]]) {
        device.copy(stream, fetched.data(), operand, bytes);
        operand = fetched.data();
      }
      at::Tensor other = tensor(operand, transfer);
      if (transfer.op == plan::ReduceOp::Max)
        at::maximum_out(result, result, other);
      else
        at::add_out(result, result, other);
    }
  }

  void writeResult(const Transfer &transfer, const void *undivided,
                   unsigned stream) {
    if (transfer.divisor != 1) {
      UseStream use(kernels, stream);
      at::Tensor to = tensor(transfer.destination, transfer);
      at::div_out(to, tensor(undivided, transfer), divisorOf(transfer));
    } else if (transfer.destination != undivided) {
      device.copy(stream, transfer.destination, undivided,
                  transfer.count * plan::dtypeBytes(transfer.dtype));
    }
  }

  at::Tensor tensor(const void *address, const Transfer &transfer) const {
    return tensorAt(address, static_cast<int64_t>(transfer.count),
                    toScalarType(transfer.dtype), kernels.device());
  }

  void grow(DeviceMemory &memory, uint64_t bytes) {
    if (memory.bytes >= bytes)
      return;
    device.drain();
    memory = {}; // before there are two of them
    memory = device.allocate(bytes);
  }

  /// One number in the device's memory: PyTorch's CUDA kernels multiply by the
  /// reciprocal of a number of the host's. Of one dimension, so that its dtype
  /// is the one that is divided in.
  void makeDivisor(const Transfer &transfer) {
    at::ScalarType type = dividesIn(transfer.dtype);
    DeviceMemory &memory = divisors[{transfer.divisor, type}];
    if (memory.bytes)
      return;
    memory = device.allocate(sizeof(double));
    auto single = static_cast<float>(transfer.divisor);
    if (type == at::kDouble)
      device.copy(0, memory.data(), &transfer.divisor, sizeof(double));
    else
      device.copy(0, memory.data(), &single, sizeof(float));
    device.drain();
  }

  at::Tensor divisorOf(const Transfer &transfer) const {
    at::ScalarType type = dividesIn(transfer.dtype);
    return tensorAt(divisors.at({transfer.divisor, type}).data(), 1, type,
                    kernels.device());
  }

  std::shared_ptr<LocalRanks> ranks;
  int rank;
  Device &device;
  Kernels &kernels;
  RankWatch *const watching; // null: nobody
  std::vector<bool> isNear;  // by rank: its memory is of this GPU
  DeviceMemory sum, fetched;
  std::shared_ptr<void> sumIsFree;
  std::map<std::pair<double, at::ScalarType>, DeviceMemory> divisors;
};

} // namespace

std::unique_ptr<DeviceCommunicator>
createLocalDeviceCommunicator(std::shared_ptr<LocalRanks> ranks, int rank,
                              Device &device, Kernels &kernels,
                              RankWatch *watch) {
  return std::make_unique<LocalDeviceCommunicator>(std::move(ranks), rank,
                                                   device, kernels, watch);
}

} // namespace fsdp
