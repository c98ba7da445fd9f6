#include "SimulatedTransfers.h"

#include "Error.h"
#include "comm/Reduce.h"
#include "plan/Collectives.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace fsdp::test {

bool SimulatedTransfers::Key::operator<(const Key &other) const {
  return std::tie(channel, number, group) <
         std::tie(other.channel, other.number, other.group);
}

/// One collective of a group. Each member reads the others' sources into memory
/// of its own, and writes its destination from there, both in as many pieces.
class SimulatedTransfers::Meeting {
public:
  Meeting(const Transfer &first, plan::RankGroup group, Random &random)
      : first(first), group(group),
        bytes(first.count * plan::dtypeBytes(first.dtype)),
        pieces(1 + random() % 3), ends(group.size) {
    for (End &end : ends) {
      end.arrived.resize(group.size, std::vector<char>(bytes));
      end.unread = end.unreadByOthers = group.size * pieces;
    }
  }

  void start(uint32_t member, const Transfer &transfer, bool shown) {
    auto what = [](const Transfer &t) {
      return std::tie(t.kind, t.count, t.dtype, t.divisor, t.op, t.mapped);
    };
    if (what(transfer) != what(first))
      throw Error(E::Collective, "ranks start different transfers");
    End &mine = ends[member];
    mine.transfer = transfer;
    mine.started = true;
    isShown |= shown;
    ++started;
    if (isShown)
      return;
    for (End &reader : ends)
      for (uint64_t piece = 0; piece < pieces; ++piece)
        reader.possible.push_back({Step::Read, member, piece});
    if (!isInPlace(mine))
      mine.possible.push_back({Step::Spoil, member, 0});
    allowWrites(member);
  }

  bool canGoOn(uint32_t member) const { return !ends[member].possible.empty(); }
  void goOn(uint32_t member, Random &random) {
    std::vector<Step> &possible = ends[member].possible;
    size_t chosen = random() % possible.size();
    Step step = possible[chosen];
    possible[chosen] = possible.back();
    possible.pop_back();
    perform(member, step);
  }

  bool isOver(uint32_t member) const {
    const End &end = ends[member];
    return started == ends.size() &&
           (isShown || (!end.unread && !end.unreadByOthers && end.isWritten()));
  }
  /// Returns whether all have.
  bool forget() { return ++forgotten == ends.size(); }

  const plan::RankGroup &members() const { return group; }

private:
  struct Step {
    enum Kind { Read, Spoil, Write } kind;
    uint32_t member; // whose source is read
    uint64_t piece;
  };
  struct End {
    Transfer transfer;
    bool started = false, writes = false;
    size_t unread, unreadByOthers, unwritten = 0; // pieces
    std::vector<std::vector<char>> arrived;       // by member
    std::vector<char> result;
    std::vector<Step> possible;

    bool isWritten() const { return writes && !unwritten; }
  };

  bool reduces() const { return plan::infoOf(first.kind).reduces; }
  size_t sourceBytes() const {
    return bytes * plan::infoOf(first.kind).piecesSent(group.size);
  }
  size_t destinationBytes() const {
    return bytes * plan::infoOf(first.kind).piecesReceived(group.size);
  }
  bool isInPlace(const End &end) const {
    auto *source = static_cast<const char *>(end.transfer.source);
    auto *to = static_cast<const char *>(end.transfer.destination);
    return source < to + destinationBytes() && to < source + sourceBytes();
  }
  std::pair<size_t, size_t> rangeOf(uint64_t piece, size_t of) const {
    return {piece * of / pieces, (piece + 1) * of / pieces};
  }

  void perform(uint32_t member, const Step &step) {
    End &end = ends[member];
    auto *to = static_cast<char *>(end.transfer.destination);
    switch (step.kind) {
    case Step::Read: {
      End &from = ends[step.member];
      auto [begin, stop] = rangeOf(step.piece, bytes);
      bool takesOne = plan::infoOf(first.kind).sends == plan::Pieces::PerRank;
      size_t at = begin + (takesOne ? member * bytes : 0);
      if (stop > begin)
        std::memcpy(end.arrived[step.member].data() + begin,
                    static_cast<const char *>(from.transfer.source) + at,
                    stop - begin);
      --end.unread;
      --from.unreadByOthers;
      allowWrites(member);
      allowWrites(step.member);
      break;
    }
    case Step::Spoil: // as NaN, and as indices out of all ranges
      if (!end.writes && destinationBytes())
        std::memset(to, 0xff, destinationBytes());
      break;
    case Step::Write: {
      auto [begin, stop] = rangeOf(step.piece, end.result.size());
      if (stop > begin)
        std::memcpy(to + begin, end.result.data() + begin, stop - begin);
      --end.unwritten;
      break;
    }
    }
  }

  /// In place what is written is a source that others may still read.
  void allowWrites(uint32_t member) {
    End &end = ends[member];
    if (!end.started || end.unread || end.writes ||
        (isInPlace(end) && end.unreadByOthers))
      return;
    end.writes = true;
    end.result.resize(destinationBytes());
    if (reduces()) {
      std::vector<const void *> sources;
      for (const auto &arrived : end.arrived)
        sources.push_back(arrived.data());
      combine(sources, {end.result.data()}, first.count, first.dtype,
              first.divisor, first.op);
    } else {
      for (size_t i = 0; bytes && i < end.arrived.size(); ++i)
        std::memcpy(end.result.data() + i * bytes, end.arrived[i].data(),
                    bytes);
    }
    end.unwritten = pieces;
    for (uint64_t piece = 0; piece < pieces; ++piece)
      end.possible.push_back({Step::Write, member, piece});
  }

  Transfer first;
  plan::RankGroup group;
  size_t bytes; // of what one rank has for all, or for another one
  uint64_t pieces;
  std::vector<End> ends; // by member
  size_t started = 0, forgotten = 0;
  bool isShown = false;
};

/// What moves on a channel to one rank: of its transfers in flight any.
class SimulatedTransfers::Wire final : public Activity {
public:
  Wire(SimulatedTransfers &transfers, uint32_t rank, unsigned channel)
      : transfers(transfers), rank(rank), channel(channel) {}

  bool canGoOn() const override { return !transfers.failed && find(0); }
  void goOn(Random &random) override {
    size_t count = 0;
    while (find(count))
      ++count;
    Meeting &chosen = *find(random() % count);
    chosen.goOn(chosen.members().indexOf(rank), random);
  }

private:
  /// The n-th that can go on; null: there are not as many.
  Meeting *find(size_t n) const {
    for (const auto &[key, meeting] : transfers.meetings)
      if (key.channel == channel && key.group.contains(rank) &&
          meeting->canGoOn(key.group.indexOf(rank)) && n-- == 0)
        return meeting.get();
    return nullptr;
  }

  SimulatedTransfers &transfers;
  uint32_t rank;
  unsigned channel;
};

SimulatedTransfers::SimulatedTransfers(RankScheduler &scheduler, int ranks)
    : scheduler(scheduler), started(ranks * numChannels) {
  for (int rank = 0; rank < ranks; ++rank)
    for (unsigned channel = 0; channel < numChannels; ++channel) {
      wires.push_back(std::make_unique<Wire>(*this, rank, channel));
      scheduler.add(*wires.back());
    }
}

SimulatedTransfers::~SimulatedTransfers() {
  for (auto &wire : wires)
    scheduler.drop(*wire);
}

uint64_t SimulatedTransfers::start(int rank, const Transfer &transfer,
                                   bool shown) {
  check();
  checkReduction(transfer);
  unsigned ranks = started.size() / numChannels;
  Started &mine = started.at(rank * numChannels + transfer.channel);
  uint64_t number = ++mine.transfers;
  Key key{transfer.channel, number, transfer.groupOf(ranks)};
  auto &meeting = meetings[key];
  if (!meeting)
    meeting =
        std::make_unique<Meeting>(transfer, key.group, scheduler.random());
  meeting->start(key.group.indexOf(rank), transfer, shown);
  mine.open[number] = key;
  return number * numChannels + transfer.channel;
}

bool SimulatedTransfers::isOver(int rank, uint64_t ticket) const {
  const Started &mine =
      started[rank * numChannels + Communicator::channelOf(ticket)];
  const Key &key = mine.open.at(ticket / numChannels);
  return meetings.at(key)->isOver(key.group.indexOf(rank));
}

void SimulatedTransfers::forget(int rank, uint64_t ticket) {
  Started &mine = started[rank * numChannels + Communicator::channelOf(ticket)];
  auto open = mine.open.find(ticket / numChannels);
  if (meetings.at(open->second)->forget())
    meetings.erase(open->second);
  mine.open.erase(open);
}

void SimulatedTransfers::fail(const std::string &why) {
  if (!failed)
    reason = why;
  failed = true;
}

void SimulatedTransfers::check() const {
  if (failed)
    throw PeerFailure(reason);
}

} // namespace fsdp::test
