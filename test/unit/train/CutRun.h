// A run that is cut in two.
#ifndef FSDP_TEST_TRAIN_CUTRUN_H
#define FSDP_TEST_TRAIN_CUTRUN_H

#include "TestRun.h"
#include "state/CheckpointFolder.h"

#include <fstream>

namespace fsdp::test {

/// A run that trains up to a step and then goes on to the end.
class CutRun : public TestRun {
public:
  explicit CutRun(int ranks, int64_t globalBatch = 8)
      : TestRun(ranks, globalBatch) {
    options.evalData = options.data;
    options.checkpoints.folder = folder / "checkpoints";
    options.checkpoints.keep = 0;
  }
  std::string trainTo(uint64_t steps) {
    options.epochs.reset();
    options.steps = steps;
    return train();
  }
  std::string goOnTo(uint64_t steps, const std::string &from = "auto") {
    options.checkpoints.resume = from;
    return trainTo(steps);
  }
  std::vector<uint64_t> steps() const {
    return checkpoint::Folder(options.checkpoints.folder).steps();
  }
  std::string pathOf(uint64_t step) const {
    return checkpoint::Folder(options.checkpoints.folder).pathOf(step);
  }
};

/// Damages a file.
inline void flipBit(const std::string &path, uint64_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(byte);
  char value = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(byte);
  file.put(value);
}

} // namespace fsdp::test

#endif // FSDP_TEST_TRAIN_CUTRUN_H
