#include "comm/GlooCommunicator.h"

#include "Error.h"
#include "comm/AwaitWork.h"
#include "comm/GlooGroups.h"
#include "comm/GlooProcess.h"
#include "comm/KeptArenas.h"
#include "comm/RankWatch.h"
#include "comm/Reduce.h"
#include "comm/TransferSignature.h"
#include "plan/Collectives.h"
#include "plan/FormatText.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>

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

struct InFlight {
  Transfer transfer;
  uint64_t number;                     // on its channel, from 1
  c10::intrusive_ptr<c10d::Work> work; // null: nothing to be moved
  Buffer sent, received;               // null: the transfer's own memory
};

/// An all-reduce of so few bytes is over sooner when everybody gets everything.
constexpr size_t fewBytes = 1024;

struct Channel {
  std::deque<InFlight> inFlight;
  uint64_t started = 0;
  /// What all members of a group are known to do alike.
  std::map<plan::RankGroup, std::set<TransferSignature>> agreed;
  std::vector<Buffer> spare; // of sums, kept for later ones
};

/// A rank that waits looks this often whether it has left itself.
constexpr std::chrono::milliseconds lookAround(500);

class GlooCommunicator : public Communicator {
public:
  GlooCommunicator(c10d::Store &store, int rank, int size,
                   const GlooAddress &address, const Patience &patience)
      : myRank(rank), ranks(size),
        options(c10d::ProcessGroupGloo::Options::create(patience.limit)),
        patience(patience), rankWatch(store, rank, size, patience),
        groups(store) {
    // The transfers of a channel follow each other, so one thread carries them.
    options->threads = 1;
    listenAt(address);
    // That all can be reached is known from the beginning.
    connect(Transfer(), {"the first meeting", 0, 0, groupOf(Transfer())});
  }
  ~GlooCommunicator() override {
    if (threads.hasFailed())
      groups.close(); // without waiting for it
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
  void check() override { requireThreads("what it does between transfers"); }

private:
  /// What fails here is this rank's own fault, which the others are told.
  void listenAt(const GlooAddress &address) {
    using Group = c10d::ProcessGroupGloo;
    try {
      options->devices.push_back(
          !address.interface.empty()
              ? Group::createDeviceForInterface(address.interface)
          : address.loopback ? Group::createDeviceForHostname("127.0.0.1")
                             : Group::createDefaultDevice());
    } catch (const std::exception &error) {
      std::string text = "cannot listen for other ranks " +
                         (address.interface.empty()
                              ? "at the address of this host's name"
                              : "on the interface '" + address.interface +
                                    "' (GLOO_SOCKET_IFNAME)") +
                         ": " + firstLine(error.what()) +
                         "; set GLOO_SOCKET_IFNAME to one that has an address "
                         "('ip address' lists them)";
      leave("rank " + std::to_string(myRank) + " failed: " + text);
      throw Error(E::MeetingFailed, text);
    }
  }
  /// That Gloo's own threads run, which others can stop by what they send.
  void requireThreads(const char *during) const {
    if (threads.hasFailed())
      throw Error(E::Collective, "rank " + std::to_string(myRank) + " " +
                                     threads.failure() + ", in " + during +
                                     ranksDoNotDoTheSame);
  }
  /// What Gloo throws means that others are gone, or too late.
  template <typename Call>
  void guarded(const AwaitedTransfer &awaited, Call call) {
    try {
      call();
    } catch (const PeerFailure &) {
      throw;
    } catch (const Error &) {
      throw;
    } catch (const std::exception &error) {
      throw rankWatch.failure(awaited, firstLine(error.what()));
    }
  }
  AwaitedTransfer awaitedOf(const InFlight &flight) const {
    const Transfer &transfer = flight.transfer;
    return {transfer.name, transfer.channel, flight.number, groupOf(transfer)};
  }
  void await(c10d::Work &work, const InFlight &flight);
  void agree(Channel &channel, const InFlight &flight);
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
  GlooThreads threads;
  c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options;
  Patience patience;
  RankWatch rankWatch;
  KeptArenas arenas;
  GlooGroups groups;
  std::array<Channel, numChannels> channels;
};

void GlooCommunicator::leave(const std::string &why) {
  rankWatch.leaveWord(why);
  groups.close();
  rankWatch.stay();
}

ProcessGroup GlooCommunicator::connect(const Transfer &transfer,
                                       const AwaitedTransfer &awaited) {
  plan::RankGroup members = groupOf(transfer);
  if (ProcessGroup known = groups.find(transfer.channel, members))
    return known;
  Awaiting waits(rankWatch.progress(), transfer.channel, awaited.number,
                 awaited.name);
  ProcessGroup made;
  guarded(awaited, [&] {
    made = groups.make(transfer.channel, members, myRank, options,
                       [&] { rankWatch.requireComing(members); });
  });
  return made;
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
  agree(channel, flight);
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
    bool told = false;
    awaitWork(work, lookAround, [&] {
      groups.requireOpen();
      requireThreads(awaited.name);
      if (told || Clock::now() - begin < patience.noteAfter)
        return;
      told = true;
      rankWatch.note(awaited);
    });
  });
}

/// Gloo compares nothing: what is shorter than awaited passes for the whole,
/// and what is longer stops its thread. Sizes are those of a plan, which all
/// ranks have alike, and come again in each step. So ranks compare the first
/// transfer of its kind in each group, before it moves. A rank that compares
/// while another moves, since it has another transfer in this place, finds by
/// its size that what arrives is no signature.
void GlooCommunicator::agree(Channel &channel, const InFlight &flight) {
  const Transfer &transfer = flight.transfer;
  plan::RankGroup members = groupOf(transfer);
  auto mine = TransferSignature::of(transfer);
  if (members.size == 1 || !channel.agreed[members].insert(mine).second)
    return;
  auto sent = std::make_shared<std::vector<char>>(sizeof(mine));
  auto received =
      std::make_shared<std::vector<char>>(members.size * sizeof(mine));
  std::memcpy(sent->data(), &mine, sizeof(mine));
  c10::intrusive_ptr<c10d::Work> work;
  guarded(awaitedOf(flight),
          [&] { work = gather(flight, bytesOf(sent), bytesOf(received)); });
  await(*work, flight);
  for (uint32_t i = 0; i < members.size; ++i) {
    TransferSignature theirs;
    std::memcpy(&theirs, received->data() + i * sizeof(theirs), sizeof(theirs));
    requireSame(transfer.name, myRank, mine, members[i], theirs);
  }
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

std::unique_ptr<Communicator> createGlooCommunicator(c10d::Store &store,
                                                     int rank, int size,
                                                     const GlooAddress &address,
                                                     const Patience &patience) {
  prepareForGloo();
  return std::make_unique<GlooCommunicator>(store, rank, size, address,
                                            patience);
}

} // namespace fsdp
