// Which commands of a program happen before which, on one rank and on all.
//
// Commands of one stream run in the order of the list; a wait's stream goes on
// after the record it names. That is all there is: two commands that neither
// orders may run at the same time, or the later one first.
//
// No plan that is checked with this can deadlock, whatever the timing. Give
// every command its number in the list, and the collective that all ranks take
// part in one number: all ranks run one plan (they compare its digest), so the
// n-th collective of a channel is the same command on each. That match needs
// the collectives of a channel on one stream, or their order on a rank would be
// left to chance; the checker demands it. Then each thing that a command waits
// for has a smaller number: its stream's previous command, the record of its
// event (which stands earlier in the list; checked), and, for a collective, the
// same number's start on the other ranks. A cycle would have to go down
// somewhere without going up. The least command that has not run can therefore
// run. What it needs from others: a communicator that carries out one channel's
// transfers without waiting for another channel's later ones, and an executor
// whose starts do not wait for finishes later in the list.
#ifndef FSDP_PLAN_CHECK_HAPPENSBEFORE_H
#define FSDP_PLAN_CHECK_HAPPENSBEFORE_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace fsdp::plan {

constexpr uint32_t maxStreams = 8;

/// The `index`th command of a stream. Index 1 is the start of the program,
/// which happens before every command; 0 lies before that.
struct Moment {
  uint32_t stream = 0, index = 0;
};

/// For each stream, the index of the last command that happens before.
struct Clock : std::array<uint32_t, maxStreams> {
  bool covers(Moment moment) const {
    return moment.index <= (*this)[moment.stream];
  }
  void join(const Clock &other) {
    for (uint32_t s = 0; s < maxStreams; ++s)
      (*this)[s] = std::max((*this)[s], other[s]);
  }
};

/// Vector clocks of a program, whose commands are told in the list's order.
class HappensBefore {
public:
  struct Knowledge {
    Clock here;       // has happened on this rank
    Clock everywhere; // has happened on every rank
  };

  HappensBefore() {
    for (Knowledge &stream : streams) {
      stream.here.fill(1);
      stream.everywhere.fill(0);
    }
    commands.fill({0, 0});
  }

  /// The next command of `stream`, number `number` of the program.
  Moment launch(uint32_t stream, uint32_t number) {
    commands[stream].push_back(number);
    return {stream, ++streams[stream].here[stream]};
  }
  /// The stream's last command is a collective: when it is complete, all ranks
  /// have started it, so on all of them what it waited for has happened. The
  /// collective itself may still be under way on another rank.
  void meet(uint32_t stream) {
    Clock before = streams[stream].here;
    --before[stream];
    streams[stream].everywhere.join(before);
  }
  /// False where the event is recorded for the second time.
  bool record(uint32_t event, uint32_t stream) {
    return events.emplace(event, streams[stream]).second;
  }
  /// False where the event was not recorded before.
  bool wait(uint32_t event, uint32_t stream) {
    auto recorded = events.find(event);
    if (recorded == events.end())
      return false;
    streams[stream].here.join(recorded->second.here);
    streams[stream].everywhere.join(recorded->second.everywhere);
    return true;
  }
  /// The program ends: every stream waits for all others.
  void drain() {
    for (Knowledge &stream : streams)
      streams[0].here.join(stream.here);
    streams.fill(streams[0]);
  }

  /// What has happened when the stream's last command runs.
  const Knowledge &operator[](uint32_t stream) const { return streams[stream]; }
  /// The number of a moment's command in the program.
  uint32_t command(Moment moment) const {
    return commands[moment.stream][moment.index];
  }

private:
  std::array<Knowledge, maxStreams> streams;
  std::array<std::vector<uint32_t>, maxStreams> commands;
  std::unordered_map<uint32_t, Knowledge> events;
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_HAPPENSBEFORE_H
