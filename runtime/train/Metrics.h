#ifndef FSDP_RUNTIME_TRAIN_METRICS_H
#define FSDP_RUNTIME_TRAIN_METRICS_H

#include "train/StepReport.h"

#include <cstdint>
#include <string>

namespace fsdp {

/// JSON lines, one object per logged step or evaluation, written as they come.
class MetricsFile {
public:
  /// A run that goes on after step `done` keeps the lines up to it, and drops
  /// those of steps that it takes again; 0: the file begins empty. Throws Error
  /// when the file cannot be made.
  MetricsFile(const std::string &path, uint64_t done);
  ~MetricsFile();
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;

  /// A line that cannot be written, for the disk is full, is lost and counted.
  void write(const StepReport &report);
  void write(const EvalReport &report);
  uint64_t lost() const { return lostLines; }
  /// Why the last of them was lost.
  const std::string &reason() const { return why; }

private:
  void line(std::string text);
  int file = -1;
  bool broken = false; // the file may end within a line
  uint64_t lostLines = 0;
  std::string why;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_METRICS_H
