#ifndef FSDP_RUNTIME_DATA_DATASET_H
#define FSDP_RUNTIME_DATA_DATASET_H

#include "data/SafeTensorsFile.h"
#include "data/SampleSource.h"

#include <memory>

namespace fsdp {

/// Samples in a safetensors file, or in all `.safetensors` files of a folder
/// one after the other by name. Dimension 0 is the sample.
class DataSet : public SampleSource {
public:
  /// Throws Error listing every column that is absent or of another dtype or
  /// shape, and when columns differ in their number of samples.
  DataSet(const std::string &path, std::vector<Column> columns);

  int64_t samples() const override { return starts.back(); }
  uint64_t sampleBytes(size_t column) const override { return widths[column]; }
  const std::string &path() const override { return name; }

  void read(size_t column, const int64_t *samples, int64_t count,
            char *to) override;

private:
  std::string name;
  std::vector<std::unique_ptr<SafeTensorsFile>> files;
  std::vector<int64_t> starts = {0};         // of each file's samples
  std::vector<std::vector<FileTensor>> data; // by column and file
  std::vector<uint64_t> widths;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_DATASET_H
