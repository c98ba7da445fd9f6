#ifndef FSDP_RUNTIME_DATA_DATASET_H
#define FSDP_RUNTIME_DATA_DATASET_H

#include "data/SafeTensorsFile.h"

#include <memory>

namespace fsdp {

/// Samples in a safetensors file, or in all `.safetensors` files of a folder
/// one after the other by name. Dimension 0 is the sample.
class DataSet {
public:
  /// What a program reads: shape[0] is one rank's batch.
  struct Column {
    std::string name;
    plan::DType dtype;
    std::vector<int64_t> shape;
  };

  /// Throws Error listing every column that is absent or of another dtype or
  /// shape, and when columns differ in their number of samples.
  DataSet(const std::string &path, std::vector<Column> columns);

  int64_t samples() const { return starts.back(); }
  uint64_t sampleBytes(size_t column) const { return widths[column]; }
  const std::string &path() const { return name; }

  /// Copies sample after sample of a column, row-major. Throws Error when a
  /// file cannot be read, or has become shorter than it was.
  void read(size_t column, const int64_t *samples, int64_t count,
            char *to) const;

private:
  std::string name;
  std::vector<std::unique_ptr<SafeTensorsFile>> files;
  std::vector<int64_t> starts = {0};         // of each file's samples
  std::vector<std::vector<FileTensor>> data; // by column and file
  std::vector<uint64_t> widths;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_DATASET_H
