#include "trace/TraceFile.h"

#include "trace/CommandOrder.h"
#include "trace/CommandTexts.h"
#include "trace/MemoryByKind.h"
#include "trace/TraceEvents.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>

namespace fsdp::trace {

namespace {

/// What is the same in all runs of a program.
struct ProgramFacts {
  ProgramFacts(const plan::PlanT &plan, const plan::ProgramT &program,
               const cost::Cluster &cluster)
      : program(program), texts(plan, program, cluster),
        memory(memoryByKind(plan, program, plan::deviceArena)),
        hostMemory(memoryByKind(plan, program, plan::hostArena)),
        awaited(awaitedCommands(program)) {}

  const plan::ProgramT &program;
  CommandTexts texts;
  std::vector<MemoryUse> memory, hostMemory;
  std::map<uint32_t, uint32_t> awaited; // by wait: the command it needs
};

/// Tracks that a stream has at most.
constexpr uint32_t maxLanes = 64;

class TraceWriter {
public:
  TraceWriter(const plan::PlanT &plan, const cost::Cluster &cluster)
      : plan(plan), cluster(cluster) {}

  void add(uint32_t number, const Process &process, int64_t zero) {
    events.nameProcess(number, process.name, process.rank);
    events.nameTrack({number, 0}, "steps");
    trackOf(number, plan::computeStream, 0);
    shown = {};
    for (const ProgramRun &run : process.runs) {
      ProgramFacts &facts = factsOf(run.program);
      ProgramRun moved = run;
      moved.shift(-zero);
      std::vector<Track> tracks = tracksOf(number, moved);
      addRun(number, moved);
      addMemory(number, moved, facts, "memory", facts.memory);
      if (plan.arenas.at(plan::hostArena)->bytes)
        addMemory(number, moved, facts, "host memory", facts.hostMemory);
      addSpans(moved, tracks, facts);
      addArrows(moved, tracks, facts);
    }
  }

  std::string text() { return events.text(); }

private:
  ProgramFacts &factsOf(uint32_t program) {
    std::unique_ptr<ProgramFacts> &facts = programs[program];
    if (!facts)
      facts = std::make_unique<ProgramFacts>(plan, *plan.programs.at(program),
                                             cluster);
    return *facts;
  }

  void addRun(uint32_t process, const ProgramRun &run) {
    std::string name = "step " + std::to_string(run.step);
    std::string args =
        "\"step\":" + std::to_string(run.step) +
        ",\"program\":" + jsonString(plan.programs[run.program]->name);
    if (const std::string &turn = plan.programs[run.program]->turn;
        !turn.empty())
      name += ", " + turn;
    if (plan.micro_batches > 1) {
      name += ", micro-batch " + std::to_string(run.microBatch + 1);
      args += ",\"micro_batch\":" + std::to_string(run.microBatch + 1);
    }
    events.slice({process, 0}, run.begin, run.end, name, "step", args);
  }

  /// Bytes change when the compute stream comes to a command: what is under way
  /// elsewhere keeps its memory until the compute stream has waited for it.
  void addMemory(uint32_t process, const ProgramRun &run,
                 const ProgramFacts &facts, const char *name,
                 const std::vector<MemoryUse> &history) {
    // By what is in front of a command in `history`, when the stream was there.
    std::vector<int64_t> ends(facts.program.commands.size() + 3, run.begin);
    for (const Span &span : run.spans)
      if (span.stream == plan::computeStream)
        ends.at(span.reached + 2) =
            std::max(ends.at(span.reached + 2), span.end);
    std::array<bool, numMemoryKinds> used;
    for (size_t k = 0; k < numMemoryKinds; ++k)
      used[k] = everUsed(history, k);
    int64_t moment = run.begin;
    for (size_t i = 0; i < history.size(); ++i) {
      moment = std::max(moment, ends[i]);
      std::string values;
      for (size_t k = 0; k < numMemoryKinds; ++k)
        if (used[k])
          values += (values.empty() ? "\"" : ",\"") +
                    std::string(memoryKindNames[k]) +
                    "\":" + std::to_string(history[i][k]);
      if (shown[name] != values)
        events.counter(process, moment, name, values);
      shown[name] = values;
    }
  }

  static bool everUsed(const std::vector<MemoryUse> &history, size_t kind) {
    return std::any_of(history.begin(), history.end(),
                       [&](const MemoryUse &use) { return use[kind] != 0; });
  }

  /// The track of each span. Transfers of one stream may be under way together,
  /// where one thread runs all streams: those that overlap have tracks of their
  /// own. What lies within others, on the compute stream, stays there.
  std::vector<Track> tracksOf(uint32_t process, const ProgramRun &run) {
    std::vector<size_t> order(run.spans.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return run.spans[a].begin < run.spans[b].begin;
    });
    std::vector<Track> tracks(run.spans.size());
    std::map<uint32_t, std::vector<int64_t>> free; // by stream, of each lane
    for (size_t i : order) {
      const Span &span = run.spans[i];
      uint32_t lane = 0;
      if (span.stream != plan::computeStream) {
        std::vector<int64_t> &lanes = free[span.stream];
        while (lane < lanes.size() && lane + 1 < maxLanes &&
               lanes[lane] > span.begin)
          ++lane;
        lanes.resize(std::max<size_t>(lanes.size(), lane + 1));
        lanes[lane] = span.end;
      }
      tracks[i] = trackOf(process, span.stream, lane);
    }
    return tracks;
  }

  /// Lanes of a stream lie below each other.
  Track trackOf(uint32_t process, uint32_t stream, uint32_t lane) {
    Track track = {process, (1 + stream) * maxLanes + lane};
    if (named.insert({process, track.thread}).second)
      events.nameTrack(
          track, plan::streamNames[stream] +
                     (lane ? " " + std::to_string(1 + lane) : std::string()));
    return track;
  }

  void addSpans(const ProgramRun &run, const std::vector<Track> &tracks,
                const ProgramFacts &facts) {
    for (size_t i = 0; i < run.spans.size(); ++i) {
      const Span &span = run.spans[i];
      if (span.kind != Span::Command) {
        addExposed(tracks[i], span, facts);
        continue;
      }
      const CommandText &text = facts.texts[span.command];
      std::string args = "\"command\":" + std::to_string(span.command) +
                         (text.facts.empty() ? "" : ",") + text.facts;
      rate(args, "gflop_per_s", text.flops, span.end - span.begin);
      rate(args, "gb_per_s", text.movedBytes, span.end - span.begin);
      events.slice(tracks[i], span.begin, span.end, text.name,
                   commandCategoryNames[int(text.category)], args);
    }
  }

  /// Bytes, or operations, per nanosecond.
  static void rate(std::string &args, const char *name, double amount,
                   int64_t nanoseconds) {
    if (amount > 0 && nanoseconds > 0)
      args += ",\"" + std::string(name) +
              "\":" + jsonNumber(std::round(amount / nanoseconds * 1e3) / 1e3);
  }

  void addExposed(Track track, const Span &span, const ProgramFacts &facts) {
    uint32_t subject = span.command;
    if (subject == nothing) {
      auto it = facts.awaited.find(span.reached);
      if (it != facts.awaited.end())
        subject = it->second;
    }
    std::string name =
        subject == nothing ? "all streams" : facts.texts[subject].name;
    std::string args = "\"turn\":" + std::to_string(span.reached) +
                       ",\"for\":" + jsonString(name);
    if (subject != nothing)
      args += ",\"command\":" + std::to_string(subject);
    events.slice(track, span.begin, span.end,
                 (span.kind == Span::Start ? "start " : "wait for ") + name,
                 "exposed", args);
  }

  /// From the command in front of each record to what a wait for it kept: where
  /// it took time, the wait itself, else the next command of its stream.
  void addArrows(const ProgramRun &run, const std::vector<Track> &tracks,
                 const ProgramFacts &facts) {
    std::map<uint32_t, size_t> commands,
        waits; // by command, by what was reached
    std::map<uint32_t, std::map<uint32_t, size_t>> byStream;
    for (size_t i = 0; i < run.spans.size(); ++i) {
      const Span &span = run.spans[i];
      if (span.kind == Span::Command)
        commands[span.command] = byStream[span.stream][span.command] = i;
      else if (span.kind == Span::Wait)
        waits[span.reached] = i; // the last of them
    }
    for (auto [wait, needed] : facts.awaited) {
      auto from = commands.find(needed);
      auto to = waits.find(wait);
      uint32_t stream = facts.program.commands[wait]->stream;
      if (to == waits.end() || run.spans[to->second].stream != stream) {
        std::map<uint32_t, size_t> &later = byStream[stream];
        to = later.upper_bound(wait);
        if (to == later.end())
          continue;
      }
      if (from != commands.end())
        addArrow(run.spans[from->second], tracks[from->second],
                 run.spans[to->second], tracks[to->second]);
    }
  }

  /// Both ends within their slices: the first one at the end of its own.
  void addArrow(const Span &from, Track fromTrack, const Span &to,
                Track toTrack) {
    int64_t left = from.end - 1;
    if (from.begin <= left && left < to.end)
      events.arrow(fromTrack, left, toTrack, std::max(left, to.begin));
  }

  const plan::PlanT &plan;
  const cost::Cluster &cluster;
  TraceEvents events;
  std::map<uint32_t, std::unique_ptr<ProgramFacts>> programs;
  std::map<std::string, std::string> shown;      // counters, as they are now
  std::set<std::pair<uint32_t, uint32_t>> named; // tracks
};

} // namespace

std::string traceText(const plan::PlanT &plan, const cost::Cluster &cluster,
                      const std::vector<Process> &processes,
                      const Metadata &metadata) {
  int64_t zero = INT64_MAX;
  for (const Process &process : processes)
    for (const ProgramRun &run : process.runs)
      zero = std::min(zero, run.begin);
  TraceWriter writer(plan, cluster);
  for (size_t p = 0; p < processes.size(); ++p)
    writer.add(static_cast<uint32_t>(p), processes[p], zero);
  std::string facts;
  for (const auto &[name, value] : metadata)
    facts += (facts.empty() ? "" : ",\n") + jsonString(name) + ":" + value;
  return "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{" + facts +
         "},\n\"traceEvents\":[\n" + writer.text() + "\n]}\n";
}

} // namespace fsdp::trace
