// The events of a trace file, in the order of time.
#ifndef FSDP_RUNTIME_TRACE_TRACEEVENTS_H
#define FSDP_RUNTIME_TRACE_TRACEEVENTS_H

#include "trace/JsonText.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace fsdp::trace {

/// Where an event is shown.
struct Track {
  uint32_t process, thread;
};

/// Collects events; times are nanoseconds. `args` are members of a JSON object.
class TraceEvents {
public:
  /// `rank`: of a process that was measured.
  void nameProcess(uint32_t process, const std::string &name,
                   std::optional<uint32_t> rank) {
    describe({process, 0}, "process_name",
             "\"name\":" + jsonString(name) +
                 (rank ? ",\"rank\":" + std::to_string(*rank) : ""));
    describe({process, 0}, "process_sort_index",
             "\"sort_index\":" + std::to_string(process));
  }
  void nameTrack(Track track, const std::string &name) {
    describe(track, "thread_name", "\"name\":" + jsonString(name));
    describe(track, "thread_sort_index",
             "\"sort_index\":" + std::to_string(track.thread));
  }

  /// A bar. One in another one of its track lies within it.
  void slice(Track track, int64_t begin, int64_t end, const std::string &name,
             const std::string &category, const std::string &args) {
    add(begin, begin - end,
        head("X", track, begin) + ",\"dur\":" + micros(end - begin) +
            ",\"name\":" + jsonString(name) + ",\"cat\":\"" + category +
            "\",\"args\":{" + args + "}}");
  }

  /// An arrow between slices: each end lies within its slice.
  void arrow(Track from, int64_t left, Track to, int64_t reached) {
    std::string id = ",\"id\":" + std::to_string(++arrows) +
                     ",\"name\":\"needs\",\"cat\":\"order\"";
    add(left, 1, head("s", from, left) + id + "}");
    add(reached, 2, head("f", to, reached) + id + ",\"bp\":\"e\"}");
  }

  /// The values of a counter from `when` on.
  void counter(uint32_t process, int64_t when, const std::string &name,
               const std::string &values) {
    add(when, 3,
        head("C", {process, 0}, when) + ",\"name\":\"" + name +
            "\",\"args\":{" + values + "}}");
  }

  /// All events, as the members of a JSON list.
  std::string text() {
    std::stable_sort(events.begin(), events.end(), [](auto &a, auto &b) {
      return std::tie(a.time, a.order) < std::tie(b.time, b.order);
    });
    std::string all = descriptions;
    for (const Event &event : events)
      all += (all.empty() ? "" : ",\n") + event.json;
    return all;
  }

private:
  /// Of those at one time: longer slices first, then what lies in slices.
  struct Event {
    int64_t time, order;
    std::string json;
  };

  static std::string micros(int64_t time) {
    char text[32];
    std::snprintf(text, sizeof(text), "%lld.%03lld",
                  static_cast<long long>(time / 1000),
                  static_cast<long long>(time % 1000));
    return text;
  }
  static std::string head(const char *phase, Track track, int64_t time) {
    return std::string("{\"ph\":\"") + phase +
           "\",\"pid\":" + std::to_string(track.process) +
           ",\"tid\":" + std::to_string(track.thread) +
           ",\"ts\":" + micros(time);
  }
  void describe(Track track, const std::string &what, const std::string &args) {
    descriptions += (descriptions.empty() ? "" : ",\n") +
                    std::string("{\"ph\":\"M\",\"pid\":") +
                    std::to_string(track.process) +
                    ",\"tid\":" + std::to_string(track.thread) +
                    ",\"name\":\"" + what + "\",\"args\":{" + args + "}}";
  }
  void add(int64_t time, int64_t order, std::string json) {
    events.push_back({time, order, std::move(json)});
  }

  std::vector<Event> events;
  std::string descriptions;
  uint64_t arrows = 0;
};

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_TRACEEVENTS_H
