#ifndef FSDP_RUNTIME_TRAIN_CONSOLE_H
#define FSDP_RUNTIME_TRAIN_CONSOLE_H

#include "train/RunOptions.h"
#include "train/StepReport.h"

#include <chrono>

namespace fsdp {

/// What rank 0 shows a person: on a terminal a bar below the lines, else lines
/// only.
class Console {
public:
  Console(ProgressKind kind, const RunLength &length);
  ~Console();

  /// Something to know before the first step, such as dropped samples.
  void note(const std::string &text);
  void step(const StepReport &report);
  void evaluation(const EvalReport &report);
  /// The epoch's mean loss, and its evaluation's results if it had one.
  void epoch(uint64_t epoch, const NamedScalars &means,
             const NamedScalars &evaluated);

private:
  void print(const std::string &text);
  void line(const std::string &text);
  void drawBar();
  void clearBar();

  bool bar = false, lines = true, notes = true;
  bool barShown = false;
  RunLength length;
  uint64_t lineInterval;
  StepReport last;
  std::chrono::steady_clock::time_point start, drawn, lastLine;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_CONSOLE_H
