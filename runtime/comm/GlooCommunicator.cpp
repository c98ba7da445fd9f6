#include "comm/GlooCommunicator.h"

#include "comm/Reduce.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/version.h>

// gloo_compat/ describes what this version's header names.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "gloo_compat/ fits PyTorch 2.11; compare it with the Gloo that "
              "this PyTorch was built with");

namespace fsdp {

namespace {

at::Tensor bytesAt(const void *data, size_t bytes) {
  return at::from_blob(const_cast<void *>(data), {static_cast<int64_t>(bytes)},
                       at::TensorOptions().dtype(at::kByte));
}

using Buffer = std::vector<char>;

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

struct InFlight {
  Transfer transfer;
  c10::intrusive_ptr<c10d::Work> work; // null: nothing to be moved
  Buffer sent, received;
};

/// An all-reduce of so few bytes is over sooner when everybody gets everything.
constexpr size_t fewBytes = 1024;

/// Process groups of its own, so that channels do not wait for each other.
struct Channel {
  std::map<plan::RankGroup, ProcessGroup> groups;
  std::deque<InFlight> inFlight;
  uint64_t started = 0;
  std::vector<Buffer> spare; // kept for later transfers
};

class GlooCommunicator : public Communicator {
public:
  GlooCommunicator(c10d::Store &store, int rank, int size,
                   const GlooAddress &address, const Patience &patience)
      : myRank(rank), ranks(size),
        store(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store)),
        options(c10d::ProcessGroupGloo::Options::create(patience.limit)),
        patience(patience) {
    // The transfers of a channel follow each other, so one thread carries them.
    options->threads = 1;
    guarded([&] {
      using Group = c10d::ProcessGroupGloo;
      options->devices.push_back(
          !address.interface.empty()
              ? Group::createDeviceForInterface(address.interface)
          : address.loopback ? Group::createDeviceForHostname("127.0.0.1")
                             : Group::createDefaultDevice());
    });
    // That all can be reached is known from the beginning.
    connect(Transfer());
  }

  int rank() const override { return myRank; }
  int size() const override { return ranks; }
  std::string transport() const override { return "Gloo"; }
  uint64_t start(const Transfer &transfer) override;
  void finish(uint64_t transfer) override;

  // Closing the connections fails the others' calls at once.
  void abort(const std::string &) override {
    aborted = true;
    for (Channel &channel : channels)
      channel.groups.clear();
  }

private:
  template <typename Call> void guarded(Call call, const char *what = nullptr) {
    try {
      call();
    } catch (const std::exception &error) {
      std::string text = error.what();
      throw PeerFailure("lost the connection to another rank" +
                        (what ? std::string(", in ") + what : "") + ": " +
                        text.substr(0, text.find('\n')));
    }
  }
  void await(c10d::Work &work, const char *what);
  /// The process group of a transfer's members on its channel, which they make
  /// when they need it first.
  ProcessGroup connect(const Transfer &transfer);
  /// Sends piece i of `source` to the i-th member, whose comes to i * bytes.
  void startExchange(Channel &channel, InFlight &flight, const void *source,
                     size_t bytes);
  c10::intrusive_ptr<c10d::Work> gather(const Transfer &transfer,
                                        const void *source, void *destination,
                                        size_t bytes) {
    at::Tensor from = bytesAt(source, bytes);
    at::Tensor to = bytesAt(destination, bytes * groupOf(transfer).size);
    return connect(transfer)->_allgather_base(to, from);
  }
  /// Reduces the ranks' pieces, which have arrived one after the other.
  void reduceReceived(const InFlight &flight, void *destination, size_t count);
  /// Whether all ranks get all contributions, and not a piece to reduce.
  static bool isSmallAllReduce(const Transfer &transfer) {
    return transfer.kind == plan::CollectiveKind::AllReduce &&
           transfer.count * plan::dtypeBytes(transfer.dtype) <= fewBytes;
  }
  size_t pieceOf(const Transfer &transfer) const {
    size_t ranks = groupOf(transfer).size;
    return transfer.kind == plan::CollectiveKind::AllReduce &&
                   !isSmallAllReduce(transfer)
               ? (transfer.count + ranks - 1) / ranks
               : transfer.count;
  }
  static Buffer takeBuffer(Channel &channel, size_t bytes) {
    Buffer buffer;
    if (!channel.spare.empty()) {
      buffer = std::move(channel.spare.back());
      channel.spare.pop_back();
    }
    buffer.resize(bytes);
    return buffer;
  }

  int myRank, ranks;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options;
  Patience patience;
  bool aborted = false;
  std::array<Channel, numChannels> channels;
};

ProcessGroup GlooCommunicator::connect(const Transfer &transfer) {
  if (aborted)
    throw PeerFailure("this rank has closed its connections");
  plan::RankGroup members = groupOf(transfer);
  ProcessGroup &group = channels.at(transfer.channel).groups[members];
  if (!group)
    guarded([&] {
      std::string keys = "channel" + std::to_string(transfer.channel);
      for (uint32_t part : {members.first, members.stride, members.size})
        keys += "/" + std::to_string(part);
      group = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>(keys, store),
          members.indexOf(myRank), members.size, options);
    });
  return group;
}

uint64_t GlooCommunicator::start(const Transfer &transfer) {
  if (transfer.kind != plan::CollectiveKind::AllGather)
    checkReduction(transfer.dtype, transfer.divisor, transfer.op);
  Channel &channel = channels.at(transfer.channel);
  InFlight &flight = channel.inFlight.emplace_back();
  flight.transfer = transfer;
  size_t dtypeBytes = plan::dtypeBytes(transfer.dtype);
  size_t piece = pieceOf(transfer) * dtypeBytes;
  if (piece > 0)
    guarded([&] {
      switch (transfer.kind) {
      case plan::CollectiveKind::AllGather:
        flight.work =
            gather(transfer, transfer.source, transfer.destination, piece);
        break;
      case plan::CollectiveKind::ReduceScatter:
        startExchange(channel, flight, transfer.source, piece);
        break;
      case plan::CollectiveKind::AllReduce:
        if (isSmallAllReduce(transfer)) {
          flight.received = takeBuffer(channel, piece * groupOf(transfer).size);
          flight.work =
              gather(transfer, transfer.source, flight.received.data(), piece);
          break;
        }
        // A reduce-scatter, of which finish() gathers the pieces.
        flight.sent = takeBuffer(channel, piece * groupOf(transfer).size);
        std::memcpy(flight.sent.data(), transfer.source,
                    transfer.count * dtypeBytes);
        startExchange(channel, flight, flight.sent.data(), piece);
        break;
      }
    });
  return channel.started++ * numChannels + transfer.channel;
}

/// Gloo does not say who keeps it waiting.
void GlooCommunicator::await(c10d::Work &work, const char *what) {
  guarded(
      [&] {
        try {
          work.wait(patience.noteAfter);
          return;
        } catch (...) {
          if (work.isCompleted())
            throw;
        }
        if (patience.note)
          patience.note("another rank has kept rank " + std::to_string(myRank) +
                        " waiting for " + inSeconds(patience.noteAfter) +
                        ", in " + what);
        work.wait();
      },
      what);
}

void GlooCommunicator::startExchange(Channel &channel, InFlight &flight,
                                     const void *source, size_t bytes) {
  size_t all = bytes * groupOf(flight.transfer).size;
  flight.received = takeBuffer(channel, all);
  at::Tensor from = bytesAt(source, all);
  at::Tensor to = bytesAt(flight.received.data(), all);
  std::vector<int64_t> even;
  flight.work = connect(flight.transfer)->alltoall_base(to, from, even, even);
}

void GlooCommunicator::reduceReceived(const InFlight &flight, void *destination,
                                      size_t count) {
  const Transfer &transfer = flight.transfer;
  std::vector<const void *> pieces;
  for (uint32_t i = 0; i < groupOf(transfer).size; ++i)
    pieces.push_back(flight.received.data() +
                     i * count * plan::dtypeBytes(transfer.dtype));
  combine(pieces, {destination}, count, transfer.dtype, transfer.divisor,
          transfer.op);
}

void GlooCommunicator::finish(uint64_t ticket) {
  Channel &channel = channels[channelOf(ticket)];
  InFlight &flight = channel.inFlight.front();
  const Transfer &transfer = flight.transfer;
  if (flight.work) {
    await(*flight.work, transfer.name);
    size_t piece = pieceOf(transfer);
    size_t dtypeBytes = plan::dtypeBytes(transfer.dtype);
    if (transfer.kind == plan::CollectiveKind::ReduceScatter ||
        isSmallAllReduce(transfer)) {
      reduceReceived(flight, transfer.destination, piece);
    } else if (transfer.kind == plan::CollectiveKind::AllReduce) {
      size_t index = groupOf(transfer).indexOf(myRank);
      char *mine = flight.sent.data() + index * piece * dtypeBytes;
      reduceReceived(flight, mine, piece);
      c10::intrusive_ptr<c10d::Work> work;
      guarded([&] {
        work =
            gather(transfer, mine, flight.received.data(), piece * dtypeBytes);
      });
      await(*work, transfer.name);
      std::memcpy(transfer.destination, flight.received.data(),
                  transfer.count * dtypeBytes);
    }
  }
  for (Buffer *buffer : {&flight.sent, &flight.received})
    if (buffer->capacity())
      channel.spare.push_back(std::move(*buffer));
  channel.inFlight.pop_front();
}

} // namespace

std::unique_ptr<Communicator> createGlooCommunicator(c10d::Store &store,
                                                     int rank, int size,
                                                     const GlooAddress &address,
                                                     const Patience &patience) {
  static std::once_flag once;
  std::call_once(once, [] {
    // Gloo writes to sockets whose other end may have failed: that is an error
    // to report, not a signal to die of. Python, its usual host, ignores it
    // too.
    std::signal(SIGPIPE, SIG_IGN);
    // PyTorch 2.11's flight recorder writes down each transfer, for a debugger
    // of process groups, and enters new groups into its table before it takes
    // its lock: two threads that start their groups' first transfers at once
    // corrupt it.
    setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);
  });
  return std::make_unique<GlooCommunicator>(store, rank, size, address,
                                            patience);
}

} // namespace fsdp
