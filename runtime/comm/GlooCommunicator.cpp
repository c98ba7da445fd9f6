#include "comm/GlooCommunicator.h"

#include "Error.h"
#include "comm/RankWatch.h"
#include "comm/Reduce.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
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
  uint64_t number;                     // on its channel, from 1
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

/// A rank that waits looks this often whether it has left itself.
constexpr std::chrono::milliseconds lookAround(500);

class GlooCommunicator : public Communicator {
public:
  GlooCommunicator(c10d::Store &store, int rank, int size,
                   const GlooAddress &address, const Patience &patience)
      : myRank(rank), ranks(size),
        store(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store)),
        options(c10d::ProcessGroupGloo::Options::create(patience.limit)),
        patience(patience), rankWatch(store, rank, size, patience) {
    // The transfers of a channel follow each other, so one thread carries them.
    options->threads = 1;
    const AwaitedTransfer all{"the first meeting", 0, 0, groupOf(Transfer())};
    guarded(all, [&] {
      using Group = c10d::ProcessGroupGloo;
      options->devices.push_back(
          !address.interface.empty()
              ? Group::createDeviceForInterface(address.interface)
          : address.loopback ? Group::createDeviceForHostname("127.0.0.1")
                             : Group::createDefaultDevice());
    });
    // That all can be reached is known from the beginning.
    connect(Transfer(), all);
  }

  int rank() const override { return myRank; }
  int size() const override { return ranks; }
  std::string transport() const override { return "Gloo"; }
  uint64_t start(const Transfer &transfer) override;
  void finish(uint64_t transfer) override;

  // Closing the connections fails the others' calls at once. A group waits for
  // its transfer before it closes, and that maybe for a rank that does nothing.
  void leave(const std::string &why) override {
    rankWatch.leaveWord(why);
    if (left.exchange(true))
      return;
    auto closed = std::make_shared<std::promise<void>>();
    auto groups = std::make_shared<std::vector<ProcessGroup>>();
    for (Channel &channel : channels) {
      for (auto &[members, group] : channel.groups)
        groups->push_back(std::move(group));
      channel.groups.clear();
    }
    std::thread([groups, closed] {
      groups->clear();
      closed->set_value();
    }).detach();
    closed->get_future().wait_for(std::chrono::seconds(1));
  }
  RankWatch *watch() override { return &rankWatch; }

private:
  /// What Gloo throws means that others are gone, or too late.
  template <typename Call>
  void guarded(const AwaitedTransfer &awaited, Call call) {
    try {
      call();
    } catch (const PeerFailure &) {
      throw;
    } catch (const std::exception &error) {
      std::string text = error.what();
      throw rankWatch.failure(awaited, text.substr(0, text.find('\n')));
    }
  }
  AwaitedTransfer awaitedOf(const InFlight &flight) const {
    const Transfer &transfer = flight.transfer;
    return {transfer.name, transfer.channel, flight.number, groupOf(transfer)};
  }
  void await(c10d::Work &work, const InFlight &flight);
  /// The process group of a transfer's members on its channel, which they make
  /// when they need it first.
  ProcessGroup connect(const Transfer &transfer,
                       const AwaitedTransfer &awaited);
  /// Sends piece i of `source` to the i-th member, whose comes to
  /// `destination` + i * bytes.
  c10::intrusive_ptr<c10d::Work> exchange(const InFlight &flight,
                                          const void *source, void *destination,
                                          size_t bytes);
  /// The same into a buffer of its own, for a sum.
  void startExchange(Channel &channel, InFlight &flight, const void *source,
                     size_t bytes) {
    flight.received =
        takeBuffer(channel, bytes * groupOf(flight.transfer).size);
    flight.work = exchange(flight, source, flight.received.data(), bytes);
  }
  c10::intrusive_ptr<c10d::Work> gather(const InFlight &flight,
                                        const void *source, void *destination,
                                        size_t bytes) {
    at::Tensor from = bytesAt(source, bytes);
    at::Tensor to = bytesAt(destination, bytes * groupOf(flight.transfer).size);
    return connect(flight.transfer, awaitedOf(flight))
        ->_allgather_base(to, from);
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
  RankWatch rankWatch;
  std::atomic<bool> left = false;
  std::array<Channel, numChannels> channels;
};

ProcessGroup GlooCommunicator::connect(const Transfer &transfer,
                                       const AwaitedTransfer &awaited) {
  if (left)
    throw PeerFailure("this rank has closed its connections");
  plan::RankGroup members = groupOf(transfer);
  ProcessGroup &group = channels.at(transfer.channel).groups[members];
  if (!group) {
    Awaiting waits(rankWatch.progress(), transfer.channel, awaited.number,
                   awaited.name);
    guarded(awaited, [&] {
      std::string keys = "channel" + std::to_string(transfer.channel);
      for (uint32_t part : {members.first, members.stride, members.size})
        keys += "/" + std::to_string(part);
      group = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>(keys, store),
          members.indexOf(myRank), members.size, options);
    });
  }
  return group;
}

uint64_t GlooCommunicator::start(const Transfer &transfer) {
  checkReduction(transfer);
  Channel &channel = channels.at(transfer.channel);
  InFlight &flight = channel.inFlight.emplace_back();
  flight.transfer = transfer;
  flight.number = ++channel.started;
  rankWatch.progress().start(transfer.channel, transfer.name);
  size_t dtypeBytes = plan::dtypeBytes(transfer.dtype);
  size_t piece = pieceOf(transfer) * dtypeBytes;
  if (piece > 0)
    guarded(awaitedOf(flight), [&] {
      switch (transfer.kind) {
      case plan::CollectiveKind::AllGather:
        flight.work =
            gather(flight, transfer.source, transfer.destination, piece);
        break;
      case plan::CollectiveKind::ReduceScatter:
        startExchange(channel, flight, transfer.source, piece);
        break;
      case plan::CollectiveKind::AllReduce:
        if (isSmallAllReduce(transfer)) {
          flight.received = takeBuffer(channel, piece * groupOf(transfer).size);
          flight.work =
              gather(flight, transfer.source, flight.received.data(), piece);
          break;
        }
        // A reduce-scatter, of which finish() gathers the pieces.
        flight.sent = takeBuffer(channel, piece * groupOf(transfer).size);
        std::memcpy(flight.sent.data(), transfer.source,
                    transfer.count * dtypeBytes);
        startExchange(channel, flight, flight.sent.data(), piece);
        break;
      case plan::CollectiveKind::AllToAll:
        flight.work =
            exchange(flight, transfer.source, transfer.destination, piece);
        break;
      }
    });
  return flight.number * numChannels + transfer.channel;
}

void GlooCommunicator::await(c10d::Work &work, const InFlight &flight) {
  const AwaitedTransfer awaited = awaitedOf(flight);
  Awaiting waits(rankWatch.progress(), awaited.channel, awaited.number,
                 awaited.name);
  guarded(awaited, [&] {
    auto begin = Clock::now();
    for (bool told = false;;) {
      try {
        work.wait(lookAround);
        return;
      } catch (...) {
        if (work.isCompleted())
          throw;
      }
      if (left)
        throw PeerFailure("this rank has closed its connections");
      if (told || Clock::now() - begin < patience.noteAfter)
        continue;
      told = true;
      rankWatch.note(awaited);
    }
  });
}

c10::intrusive_ptr<c10d::Work>
GlooCommunicator::exchange(const InFlight &flight, const void *source,
                           void *destination, size_t bytes) {
  size_t all = bytes * groupOf(flight.transfer).size;
  at::Tensor from = bytesAt(source, all), to = bytesAt(destination, all);
  std::vector<int64_t> even;
  return connect(flight.transfer, awaitedOf(flight))
      ->alltoall_base(to, from, even, even);
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
    await(*flight.work, flight);
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
      guarded(awaitedOf(flight), [&] {
        work = gather(flight, mine, flight.received.data(), piece * dtypeBytes);
      });
      await(*work, flight);
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

/// Gloo's TLS of PyTorch 2.11 loads its certificates and then sends everything
/// as it is, to anybody: worse than none, since people rely on it.
static void refuseTls() {
  const char *transport = std::getenv("GLOO_DEVICE_TRANSPORT");
  if (transport && std::strcmp(transport, "TCP_TLS") == 0)
    throw Error("GLOO_DEVICE_TRANSPORT is TCP_TLS, but the Gloo of PyTorch "
                "2.11 then sends everything unencrypted all the same; unset "
                "it, and keep the ranks in a network that you trust");
}

std::unique_ptr<Communicator> createGlooCommunicator(c10d::Store &store,
                                                     int rank, int size,
                                                     const GlooAddress &address,
                                                     const Patience &patience) {
  refuseTls();
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
