#include "comm/GlooCommunicator.h"

#include "Error.h"
#include "comm/KeptArenas.h"
#include "comm/RankWatch.h"
#include "comm/Reduce.h"
#include "plan/Collectives.h"

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

/// For Gloo, whose threads may be at it still when this rank has failed and has
/// forgotten the transfer: the tensor keeps the memory's owner.
at::Tensor bytesAt(std::shared_ptr<const void> owner, const void *data,
                   size_t bytes) {
  return at::from_blob(
      const_cast<void *>(data), {static_cast<int64_t>(bytes)},
      [owner = std::move(owner)](void *) {},
      at::TensorOptions().dtype(at::kByte));
}

using Buffer = std::shared_ptr<std::vector<char>>;

at::Tensor bytesOf(const Buffer &buffer) {
  return bytesAt(buffer, buffer->data(), buffer->size());
}

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

struct InFlight {
  Transfer transfer;
  uint64_t number;                     // on its channel, from 1
  c10::intrusive_ptr<c10d::Work> work; // null: nothing to be moved
  Buffer sent, received;               // null: the transfer's own memory
};

/// An all-reduce of so few bytes is over sooner when everybody gets everything.
constexpr size_t fewBytes = 1024;

/// Process groups of its own, so that channels do not wait for each other.
struct Channel {
  std::map<plan::RankGroup, ProcessGroup> groups;
  std::deque<InFlight> inFlight;
  uint64_t started = 0;
  std::vector<Buffer> spare; // of sums, kept for later ones
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
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override {
    return arenas.allocate(layout);
  }
  void leave(const std::string &why) override;
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
  /// What the others are sent: in an arena, else a copy of it.
  at::Tensor source(Channel &channel, InFlight &flight, const void *data,
                    size_t bytes) {
    if (auto arena = arenas.holding(data, bytes))
      return bytesAt(std::move(arena), data, bytes);
    flight.sent = takeBuffer(channel, bytes);
    std::memcpy(flight.sent->data(), data, bytes);
    return bytesOf(flight.sent);
  }
  /// Where the others' bytes arrive: in an arena, else where finish() finds
  /// them.
  at::Tensor destination(Channel &channel, InFlight &flight, const void *data,
                         size_t bytes) {
    if (auto arena = arenas.holding(data, bytes))
      return bytesAt(std::move(arena), data, bytes);
    flight.received = takeBuffer(channel, bytes);
    return bytesOf(flight.received);
  }
  /// Piece i of `from` goes to the i-th member, whose comes to piece i of `to`.
  c10::intrusive_ptr<c10d::Work> exchange(const InFlight &flight,
                                          at::Tensor from, at::Tensor to) {
    std::vector<int64_t> even;
    return connect(flight.transfer, awaitedOf(flight))
        ->alltoall_base(to, from, even, even);
  }
  /// `from` comes to each member, the i-th one's to piece i of `to`.
  c10::intrusive_ptr<c10d::Work> gather(const InFlight &flight, at::Tensor from,
                                        at::Tensor to) {
    return connect(flight.transfer, awaitedOf(flight))
        ->_allgather_base(to, from);
  }
  c10::intrusive_ptr<c10d::Work> begin(Channel &channel, InFlight &flight,
                                       size_t piece);
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
    auto buffer = std::make_shared<std::vector<char>>();
    if (!channel.spare.empty()) {
      buffer = std::move(channel.spare.back());
      channel.spare.pop_back();
    }
    buffer->resize(bytes);
    return buffer;
  }

  int myRank, ranks;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options;
  Patience patience;
  RankWatch rankWatch;
  KeptArenas arenas;
  std::atomic<bool> left = false;
  std::mutex groupsMutex; // of the channels' groups, and of setting `left`
  std::array<Channel, numChannels> channels;
};

// Closing the connections fails the others' calls at once. A group waits for
// its transfer before it closes, and that maybe for a rank that does nothing.
void GlooCommunicator::leave(const std::string &why) {
  rankWatch.leaveWord(why);
  auto groups = std::make_shared<std::vector<ProcessGroup>>();
  {
    std::lock_guard<std::mutex> lock(groupsMutex);
    if (left.exchange(true))
      return;
    for (Channel &channel : channels) {
      for (auto &[members, group] : channel.groups)
        groups->push_back(std::move(group));
      channel.groups.clear();
    }
  }
  auto closed = std::make_shared<std::promise<void>>();
  std::thread([groups, closed] {
    groups->clear();
    closed->set_value();
  }).detach();
  closed->get_future().wait_for(std::chrono::seconds(1));
}

ProcessGroup GlooCommunicator::connect(const Transfer &transfer,
                                       const AwaitedTransfer &awaited) {
  plan::RankGroup members = groupOf(transfer);
  auto &groups = channels.at(transfer.channel).groups;
  std::unique_lock<std::mutex> lock(groupsMutex);
  auto requireHere = [&] {
    if (left)
      throw PeerFailure("this rank has closed its connections");
  };
  requireHere();
  if (auto found = groups.find(members); found != groups.end())
    return found->second;
  lock.unlock(); // to leave must not wait for ranks that do not come
  ProcessGroup group;
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
  lock.lock();
  requireHere();
  groups.emplace(members, group);
  return group;
}

c10::intrusive_ptr<c10d::Work>
GlooCommunicator::begin(Channel &channel, InFlight &flight, size_t piece) {
  const Transfer &transfer = flight.transfer;
  size_t all = piece * groupOf(transfer).size;
  switch (transfer.kind) {
  case plan::CollectiveKind::AllGather:
    return gather(flight, source(channel, flight, transfer.source, piece),
                  destination(channel, flight, transfer.destination, all));
  case plan::CollectiveKind::AllToAll:
    return exchange(flight, source(channel, flight, transfer.source, all),
                    destination(channel, flight, transfer.destination, all));
  case plan::CollectiveKind::ReduceScatter:
    flight.received = takeBuffer(channel, all);
    return exchange(flight, source(channel, flight, transfer.source, all),
                    bytesOf(flight.received));
  case plan::CollectiveKind::AllReduce:
    break;
  }
  flight.received = takeBuffer(channel, all);
  if (isSmallAllReduce(transfer))
    return gather(flight, source(channel, flight, transfer.source, piece),
                  bytesOf(flight.received));
  // A reduce-scatter, of which finish() gathers the pieces.
  flight.sent = takeBuffer(channel, all);
  std::memcpy(flight.sent->data(), transfer.source,
              transfer.count * plan::dtypeBytes(transfer.dtype));
  return exchange(flight, bytesOf(flight.sent), bytesOf(flight.received));
}

uint64_t GlooCommunicator::start(const Transfer &transfer) {
  checkReduction(transfer);
  Channel &channel = channels.at(transfer.channel);
  InFlight &flight = channel.inFlight.emplace_back();
  flight.transfer = transfer;
  flight.number = ++channel.started;
  rankWatch.progress().start(transfer.channel, transfer.name);
  size_t piece = pieceOf(transfer) * plan::dtypeBytes(transfer.dtype);
  if (piece > 0)
    guarded(awaitedOf(flight),
            [&] { flight.work = begin(channel, flight, piece); });
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

void GlooCommunicator::reduceReceived(const InFlight &flight, void *destination,
                                      size_t count) {
  const Transfer &transfer = flight.transfer;
  std::vector<const void *> pieces;
  for (uint32_t i = 0; i < groupOf(transfer).size; ++i)
    pieces.push_back(flight.received->data() +
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
      char *mine = flight.sent->data() + index * piece * dtypeBytes;
      reduceReceived(flight, mine, piece);
      c10::intrusive_ptr<c10d::Work> work;
      guarded(awaitedOf(flight), [&] {
        work = gather(flight, bytesAt(flight.sent, mine, piece * dtypeBytes),
                      bytesOf(flight.received));
      });
      await(*work, flight);
      std::memcpy(transfer.destination, flight.received->data(),
                  transfer.count * dtypeBytes);
    } else if (flight.received) {
      std::memcpy(transfer.destination, flight.received->data(),
                  flight.received->size());
    }
  }
  if (plan::infoOf(transfer.kind).reduces)
    for (Buffer *buffer : {&flight.sent, &flight.received})
      if (*buffer)
        channel.spare.push_back(std::move(*buffer));
  channel.inFlight.pop_front();
}

} // namespace

/// Gloo's TLS of PyTorch 2.11 loads its certificates and then sends everything
/// as it is, to anybody: worse than none, since people rely on it.
static void refuseTls() {
  const char *transport = std::getenv("GLOO_DEVICE_TRANSPORT");
  if (transport && std::strcmp(transport, "TCP_TLS") == 0)
    throw Error(E::Secret,
                "GLOO_DEVICE_TRANSPORT is TCP_TLS, but the Gloo of PyTorch "
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
