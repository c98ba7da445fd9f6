#include "comm/SharedMemoryCommunicator.h"

#include "Error.h"
#include "comm/Reduce.h"
#include "comm/SharedArena.h"
#include "comm/SharedMemoryGroup.h"
#include "comm/TransferPieces.h"
#include "comm/TransferSignature.h"
#include "plan/Collectives.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace fsdp {

namespace {

using plan::RankGroup;

/// What one rank does of a transfer before it looks for the next part: small
/// enough to share out a late rank's work, and to stay in a core's cache.
constexpr size_t partBytes = 128 << 10;

constexpr unsigned offsetBits = 48;
constexpr uint64_t elsewhere = 0;

/// What a rank takes its transfer for.
TransferSignature signatureOf(const Slot &slot) {
  constexpr auto relaxed = std::memory_order_relaxed;
  return TransferSignature::unpack(
      {slot.signature[0].load(relaxed), slot.signature[1].load(relaxed)});
}

/// What a rank keeps of a channel for itself.
struct Channel {
  struct InFlight {
    Transfer transfer;
    bool shown; // by a window: nothing is to be moved
  };
  uint64_t started = 0, finished = 0, staged = 0;
  std::vector<InFlight> inFlight{ChannelControl::numSlots};
  /// Who reads each half of the staging area.
  RankGroup readers[2] = {{0, 1, 0}, {0, 1, 0}};
  // Of the transfer being finished: the memory of each of the group, and a
  // part's.
  std::vector<char *> sources, destinations;
  std::vector<const void *> from;
  std::vector<void *> to;
};

class SharedMemoryCommunicator : public Communicator {
public:
  SharedMemoryCommunicator(c10d::Store &store, int rank, int size,
                           const Patience &patience)
      : group(store, rank, size, patience), channels(numChannels) {
    for (Channel &channel : channels) {
      channel.sources.resize(size);
      channel.destinations.resize(size);
    }
  }

  int rank() const override { return group.rank; }
  int size() const override { return group.size; }
  std::string transport() const override { return "shared memory"; }
  uint64_t start(const Transfer &transfer) override;
  void finish(uint64_t transfer) override;
  std::optional<Clock::time_point>
  startedByAll(uint64_t transfer) const override;
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override;
  void leave(const std::string &why) override {
    group.fail(why);
    group.watch().leaveWord(why);
    group.watch().stay();
  }
  RankWatch *watch() override { return &group.watch(); }
  void check() override {
    group.checkFailures();
    group.checkPeers();
  }

private:
  class Registered;

  ChannelControl &control(int r, unsigned channel) const {
    return group.block(r).channels[channel];
  }
  Slot &slot(int r, unsigned channel, uint64_t number) const {
    return control(r, channel).slots[number % ChannelControl::numSlots];
  }
  void complete(unsigned channel, uint64_t number);
  uint64_t locate(const void *pointer) const;
  char *find(int r, uint64_t location) const;
  bool hasPassed(int r, unsigned channel, uint64_t number) const;
  bool findAll(unsigned channel, uint64_t number, RankGroup members);
  void moveDirectly(const AwaitedTransfer &awaited, const Transfer &transfer);
  void movePart(Channel &channel, const Transfer &transfer,
                const TransferPieces &pieces, int piece, size_t begin,
                size_t count);
  void moveStaged(const AwaitedTransfer &awaited, const Transfer &transfer);

  SharedMemoryGroup group;
  std::vector<Channel> channels;
  /// By the order of their allocation, which is every rank's; null: gone.
  std::vector<SharedArena *> arenas;
};

/// An arena that the communicator knows as long as it lives.
class SharedMemoryCommunicator::Registered : public SharedArena {
public:
  Registered(SharedMemoryCommunicator &owner, const ArenaLayout &layout)
      : SharedArena(layout, owner.rank(), owner.size()), owner(owner) {
    owner.arenas.push_back(this);
  }
  ~Registered() override {
    std::replace(owner.arenas.begin(), owner.arenas.end(),
                 static_cast<SharedArena *>(this),
                 static_cast<SharedArena *>(nullptr));
  }

private:
  SharedMemoryCommunicator &owner;
};

/// What the other ranks find this memory by: which arena, and where in it.
uint64_t SharedMemoryCommunicator::locate(const void *pointer) const {
  for (size_t i = 0; i < arenas.size(); ++i)
    if (arenas[i] && arenas[i]->segment(rank()).contains(pointer))
      return (i + 1) << offsetBits | (static_cast<const char *>(pointer) -
                                      arenas[i]->segment(rank()).data());
  return elsewhere;
}

char *SharedMemoryCommunicator::find(int r, uint64_t location) const {
  const SharedArena &arena = *arenas[(location >> offsetBits) - 1];
  return arena.segment(r).data() +
         (location & ((uint64_t{1} << offsetBits) - 1));
}

uint64_t SharedMemoryCommunicator::start(const Transfer &transfer) {
  checkReduction(transfer);
  group.checkFailures();
  Channel &channel = channels.at(transfer.channel);
  uint64_t number = channel.started + 1;
  // There is no room for more. The others come to the oldest as well, whatever
  // this rank does.
  if (number > channel.finished + ChannelControl::maxInFlight)
    complete(transfer.channel, channel.finished + 1);
  channel.started = number;
  bool shown =
      transfer.mapped &&
      std::any_of(arenas.begin(), arenas.end(), [&](SharedArena *a) {
        return a && a->mapped() && a->windowContains(transfer.destination);
      });
  channel.inFlight[number % ChannelControl::numSlots] = {transfer, shown};

  constexpr auto relaxed = std::memory_order_relaxed;
  Slot &mine = slot(rank(), transfer.channel, number);
  mine.source.store(locate(transfer.source), relaxed);
  mine.destination.store(locate(transfer.destination), relaxed);
  auto signature = TransferSignature::of(transfer).pack();
  for (size_t i = 0; i < signature.size(); ++i)
    mine.signature[i].store(signature[i], relaxed);
  mine.startTime.store(Clock::now().time_since_epoch().count(), relaxed);
  mine.work.open(number);
  control(rank(), transfer.channel)
      .started.store(number, std::memory_order_release);
  group.announce(transfer.channel);
  group.watch().progress().start(transfer.channel, transfer.name);
  return number * numChannels + transfer.channel;
}

void SharedMemoryCommunicator::finish(uint64_t ticket) {
  unsigned c = channelOf(ticket);
  uint64_t number = ticket / numChannels;
  if (number > channels[c].finished) // else start() has had to do it
    complete(c, number);
}

/// Whether a rank has so many later transfers under way that it has finished
/// this one, which is then over for all: it has found that they do the same,
/// and all is moved. Its slot may be another transfer's by now; what was read
/// there before this is false was this one's.
bool SharedMemoryCommunicator::hasPassed(int r, unsigned c,
                                         uint64_t number) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return control(r, c).started.load(std::memory_order_acquire) - number >=
         ChannelControl::maxInFlight;
}

void SharedMemoryCommunicator::complete(unsigned c, uint64_t number) {
  Channel &channel = channels[c];
  auto &[transfer, shown] = channel.inFlight[number % ChannelControl::numSlots];
  RankGroup members = groupOf(transfer);
  AwaitedTransfer awaited{transfer.name, c, number, members};
  auto mine = TransferSignature::of(transfer);
  bool isOver = shown;
  for (uint32_t i = 0; i < members.size; ++i)
    if (int r = members[i]; r != rank()) {
      group.await(awaited, [&, r] {
        return control(r, c).started.load(std::memory_order_acquire) >= number;
      });
      TransferSignature theirs = signatureOf(slot(r, c, number));
      if (hasPassed(r, c, number))
        isOver = true;
      else
        requireSame(transfer.name, rank(), mine, r, theirs);
    }
  if (!isOver) {
    bool direct = findAll(c, number, members);
    for (uint32_t i = 0; i < members.size; ++i)
      isOver = isOver || hasPassed(members[i], c, number);
    if (!isOver)
      direct ? moveDirectly(awaited, transfer) : moveStaged(awaited, transfer);
  }
  channel.finished = number;
}

/// Finds the sources and destinations of all members. False, for all of them
/// alike, when one is outside the arenas.
bool SharedMemoryCommunicator::findAll(unsigned c, uint64_t number,
                                       RankGroup members) {
  for (uint32_t i = 0; i < members.size; ++i) {
    int r = members[i];
    const Slot &theirs = slot(r, c, number);
    uint64_t source = theirs.source.load(std::memory_order_relaxed);
    uint64_t destination = theirs.destination.load(std::memory_order_relaxed);
    if (source == elsewhere || destination == elsewhere)
      return false;
    channels[c].sources[i] = find(r, source);
    channels[c].destinations[i] = find(r, destination);
  }
  return true;
}

void SharedMemoryCommunicator::moveDirectly(const AwaitedTransfer &awaited,
                                            const Transfer &transfer) {
  unsigned c = awaited.channel;
  uint64_t number = awaited.number;
  RankGroup members = awaited.group;
  int ranks = members.size, mine = members.indexOf(rank());
  TransferPieces pieces(transfer, ranks);
  size_t part = partBytes / plan::dtypeBytes(transfer.dtype);
  auto parts = [&](int piece) {
    return (pieces.size(piece) + part - 1) / part;
  };
  // This rank's own piece first, then what others have not come to.
  for (int i = 0; i < ranks; ++i) {
    int piece = (mine + i) % ranks;
    SharedWork &work = slot(members[piece], c, number).work;
    uint64_t taken;
    while (work.claim(number, parts(piece), taken)) {
      size_t begin = taken * part;
      movePart(channels[c], transfer, pieces, piece, begin,
               std::min(part, pieces.size(piece) - begin));
      if (work.complete(parts(piece)))
        group.announce(c);
    }
  }
  for (int piece = 0; piece < ranks; ++piece)
    group.await(awaited, [&, piece] {
      return slot(members[piece], c, number).work.done(number, parts(piece));
    });
}

void SharedMemoryCommunicator::movePart(Channel &channel,
                                        const Transfer &transfer,
                                        const TransferPieces &pieces, int piece,
                                        size_t begin, size_t count) {
  size_t bytes = plan::dtypeBytes(transfer.dtype);
  channel.from.clear();
  channel.to.clear();
  int ranks = groupOf(transfer).size;
  for (int r = 0; r < ranks; ++r) {
    if (pieces.reads(piece, r))
      channel.from.push_back(channel.sources[r] +
                             (pieces.sourceBegin(piece) + begin) * bytes);
    if (pieces.writes(piece, r))
      channel.to.push_back(channel.destinations[r] +
                           (pieces.destinationBegin(piece) + begin) * bytes);
  }
  if (pieces.scatters() && !pieces.info.reduces)
    for (int r = 0; r < ranks; ++r)
      std::memcpy(static_cast<char *>(channel.to[0]) +
                      pieces.destinationOf(r) * bytes,
                  channel.from[r], count * bytes);
  else
    combine(channel.from, channel.to, count, transfer.dtype, transfer.divisor,
            transfer.op);
}

/// Through the control blocks, in rounds that each fill a half of the staging
/// area: a rank that fills the next half has read this one, so once all of its
/// readers have, the one after may overwrite it.
void SharedMemoryCommunicator::moveStaged(const AwaitedTransfer &awaited,
                                          const Transfer &transfer) {
  unsigned c = awaited.channel;
  Channel &channel = channels[c];
  size_t bytes = plan::dtypeBytes(transfer.dtype), count = transfer.count;
  const char *source = static_cast<const char *>(transfer.source);
  char *destination = static_cast<char *>(transfer.destination);
  RankGroup members = groupOf(transfer);
  TransferPieces pieces(transfer, members.size);
  // Some show each rank its piece; the others the whole source.
  size_t shown = pieces.info.piecesSent(members.size);
  size_t mine = pieces.scatters() ? members.indexOf(rank()) : 0;
  size_t round = ChannelControl::stagingBytes / bytes / shown;
  for (size_t begin = 0; begin < count; begin += round) {
    size_t length = std::min(round, count - begin);
    uint64_t number = ++channel.staged;
    auto staging = [&](int r) { return control(r, c).staging[number % 2]; };
    auto awaitStaged = [&](int r, uint64_t number) {
      group.await(awaited, [&] {
        return control(r, c).staged.load(std::memory_order_acquire) >= number;
      });
    };
    RankGroup &readers = channel.readers[number % 2];
    for (uint32_t i = 0; i < readers.size; ++i)
      if (int r = readers[i]; r != rank())
        awaitStaged(r, number - 1);
    readers = members;
    for (size_t p = 0; p < shown; ++p)
      std::memcpy(staging(rank()) + p * length * bytes,
                  source + (p * count + begin) * bytes, length * bytes);
    control(rank(), c).staged.store(number, std::memory_order_release);
    group.announce(c);
    channel.from.clear();
    for (uint32_t i = 0; i < members.size; ++i) {
      int r = members[i];
      awaitStaged(r, number);
      const char *theirs = staging(r) + mine * length * bytes;
      if (pieces.info.reduces)
        channel.from.push_back(theirs);
      else if (pieces.gives(i))
        std::memcpy(destination + (pieces.destinationOf(i) + begin) * bytes,
                    theirs, length * bytes);
    }
    channel.to.assign(1, destination + begin * bytes);
    if (pieces.info.reduces)
      combine(channel.from, channel.to, length, transfer.dtype,
              transfer.divisor, transfer.op);
  }
}

std::optional<Communicator::Clock::time_point>
SharedMemoryCommunicator::startedByAll(uint64_t ticket) const {
  unsigned c = channelOf(ticket);
  uint64_t number = ticket / numChannels;
  if (hasPassed(rank(), c, number))
    return std::nullopt;
  RankGroup members =
      groupOf(channels[c].inFlight[number % ChannelControl::numSlots].transfer);
  int64_t last = 0;
  for (uint32_t i = 0; i < members.size; ++i) {
    last = std::max(
        last,
        slot(members[i], c, number).startTime.load(std::memory_order_relaxed));
    if (hasPassed(members[i], c, number))
      return std::nullopt;
  }
  return Clock::time_point(Clock::duration(last));
}

std::unique_ptr<ArenaMemory>
SharedMemoryCommunicator::allocate(const ArenaLayout &layout) {
  auto arena = std::make_unique<Registered>(*this, layout);
  SharedSegment::Address mine = arena->address();
  std::vector<SharedSegment::Address> all(size());
  allGather(&mine, all.data(), sizeof(mine), plan::DType::UInt8);
  try {
    arena->connect(all);
  } catch (const Error &) {
    // The memory of a rank that ends cannot be opened. Its files are closed a
    // moment before the system says that it has ended.
    for (auto end = Clock::now() + std::chrono::seconds(1); Clock::now() < end;
         std::this_thread::sleep_for(std::chrono::milliseconds(1)))
      group.checkPeers();
    throw;
  }
  barrier();
  arena->closeDescriptors();
  return arena;
}

} // namespace

std::unique_ptr<Communicator>
createSharedMemoryCommunicator(c10d::Store &store, int rank, int size,
                               const Patience &patience) {
  return std::make_unique<SharedMemoryCommunicator>(store, rank, size,
                                                    patience);
}

} // namespace fsdp
