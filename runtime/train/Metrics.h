#ifndef FSDP_RUNTIME_TRAIN_METRICS_H
#define FSDP_RUNTIME_TRAIN_METRICS_H

#include "train/StepReport.h"

#include <fstream>

namespace fsdp {

/// JSON lines, one object per logged step or evaluation, flushed as they come.
class MetricsFile {
public:
  /// Throws Error when the file cannot be made.
  explicit MetricsFile(const std::string &path);
  void write(const StepReport &report);
  void write(const EvalReport &report);

private:
  void line(const std::string &text);
  std::string path;
  std::ofstream file;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_METRICS_H
