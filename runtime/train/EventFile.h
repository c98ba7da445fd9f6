#ifndef FSDP_RUNTIME_TRAIN_EVENTFILE_H
#define FSDP_RUNTIME_TRAIN_EVENTFILE_H

#include "train/Metrics.h"

namespace fsdp {

/// Metrics as `tensorboard --logdir` reads them: records of the protocol buffer
/// tensorflow.Event, each with its length and masked CRC32Cs, as tensorflow's
/// record_writer has them. docs/metrics.md has the tags.
class EventFile : public MetricsWriter {
public:
  /// A new file of this process in a folder, which is made. Those of a run that
  /// goes on after step `done` stay there, and readers drop their later steps.
  /// Throws Error where the file cannot be made.
  EventFile(const std::string &folder, uint64_t done, int ranks);
  void write(const nlohmann::ordered_json &row) override;

private:
  int ranks;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_EVENTFILE_H
