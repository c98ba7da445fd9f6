// When the commands of a program run: the streams' clocks.
#ifndef FSDP_RUNTIME_COST_STREAMCLOCKS_H
#define FSDP_RUNTIME_COST_STREAMCLOCKS_H

#include "plan/PlanTypes.h"

#include <array>
#include <iterator>

namespace fsdp::cost {

/// In seconds since the program's start.
struct Interval {
  double begin = 0, end = 0;

  bool isEmpty() const { return end <= begin; }
};

/// Follows a program's commands in the order of its list, each on its stream:
/// a command runs when those before it on its stream are through and, behind a
/// wait, when what it waits for is. All ranks are as fast as this one. Streams
/// are those of plan::streamNames.
class StreamClocks {
public:
  /// What is next on `stream`.
  double now(unsigned stream) const { return clocks.at(stream); }

  /// A command that keeps `stream` busy for so many seconds.
  Interval run(unsigned stream, double seconds);

  /// A collective: as `run`, and counted as communication; on the compute
  /// stream it is exposed.
  Interval communicate(unsigned stream, double seconds);

  /// What is next on `stream` waits until `time`. What passes until then,
  /// which is exposed on the compute stream.
  Interval waitUntil(unsigned stream, double time);

  /// What is next on `stream` begins at `time`, whatever waits before it cost.
  void set(unsigned stream, double time) { clocks.at(stream) = time; }

  /// From the start of the program until all its streams are through.
  double stepSeconds() const;
  /// Time in which the compute stream does nothing but communicate or wait.
  double exposedSeconds() const { return exposed; }
  /// The sum of all collectives, hidden or not.
  double communicationSeconds() const { return communication; }

private:
  std::array<double, std::size(plan::streamNames)> clocks = {};
  double exposed = 0, communication = 0;
};

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_STREAMCLOCKS_H
