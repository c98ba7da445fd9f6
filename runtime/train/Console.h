#ifndef FSDP_RUNTIME_TRAIN_CONSOLE_H
#define FSDP_RUNTIME_TRAIN_CONSOLE_H

#include "train/RunOptions.h"
#include "train/StepReport.h"

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace fsdp {

/// What rank 0 shows: a person on a terminal a bar below the lines, elsewhere
/// lines only; a program an object per line, as docs/metrics.md defines it.
class Console {
public:
  /// `logInterval`: the user's. Where there is no bar, each step that is told
  /// has a line then; else some have one.
  Console(ProgressKind kind, const RunLength &length,
          std::optional<uint64_t> logInterval = std::nullopt);
  ~Console();

  /// Something to know, such as dropped samples or a checkpoint that failed.
  /// Where it cannot be printed, it goes where errors go.
  void note(const std::string &text);
  /// For programs: what is told, with its fields. Nothing else is told to them.
  void object(const char *event, const nlohmann::ordered_json &fields);
  void step(const StepReport &report);
  void evaluation(const EvalReport &report);
  /// The epoch's mean loss, and its evaluation's results if it had one.
  void epoch(uint64_t epoch, const NamedScalars &means,
             const NamedScalars &evaluated);

  /// Lines that could not be printed, since nobody reads them or the disk that
  /// they go to is full.
  uint64_t lost() const { return lostLines; }
  /// Why the last of them was lost.
  const std::string &reason() const { return why; }

private:
  bool write(const std::string &text);
  bool print(const std::string &text);
  void line(const std::string &text);
  void drawBar();
  void clearBar();

  bool bar = false, lines = true, notes = true, objects = false;
  bool barShown = false;
  uint64_t lostLines = 0;
  std::string why;
  RunLength length;
  uint64_t lineInterval;
  StepReport last;
  std::chrono::steady_clock::time_point start, drawn, lastLine;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_CONSOLE_H
