#ifndef FSDP_RUNTIME_TRAIN_METRICS_H
#define FSDP_RUNTIME_TRAIN_METRICS_H

#include "train/StepReport.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fsdp {

/// The fields of a line of metrics, which docs/metrics.md defines, by name.
nlohmann::ordered_json metricsOf(const StepReport &report);
nlohmann::ordered_json metricsOf(const EvalReport &report);

/// A file that gets each line of metrics as it comes. One that cannot be
/// written, for the disk is full, is lost and counted.
class MetricsWriter {
public:
  virtual ~MetricsWriter();
  MetricsWriter(const MetricsWriter &) = delete;
  MetricsWriter &operator=(const MetricsWriter &) = delete;

  virtual void write(const nlohmann::ordered_json &row) = 0;
  const std::string &path() const { return name; }
  uint64_t lost() const { return lostLines; }
  /// Why the last of them was lost.
  const std::string &reason() const { return why; }

protected:
  /// Throws Error where the file cannot be opened with the flags of open(2).
  MetricsWriter(const std::string &path, int flags);
  /// What a line is in the file. None, or all of it, is in the file then,
  /// unless the file cannot be cut.
  void append(const std::string &bytes);
  /// Whether the file may end within a line.
  bool isBroken() const { return broken; }

private:
  std::string name;
  int file = -1;
  bool broken = false;
  uint64_t lostLines = 0;
  std::string why;
};

/// JSON lines, one object each.
class MetricsFile : public MetricsWriter {
public:
  /// A run that goes on after step `done` keeps the lines up to it, and drops
  /// those of steps that it takes again; 0: the file begins empty. Throws Error
  /// when the file cannot be made.
  MetricsFile(const std::string &path, uint64_t done);
  void write(const nlohmann::ordered_json &row) override;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_METRICS_H
