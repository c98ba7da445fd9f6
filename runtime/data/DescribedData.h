#ifndef FSDP_RUNTIME_DATA_DESCRIBEDDATA_H
#define FSDP_RUNTIME_DATA_DESCRIBEDDATA_H

#include "data/DataDescription.h"
#include "data/FilePool.h"
#include "data/SampleSource.h"

namespace fsdp {

/// Samples in files of others, by a description of them. Only what is asked for
/// is read, and converted to the program's dtype.
class DescribedData : public SampleSource {
public:
  /// Throws Error where the description is damaged or does not fit the columns,
  /// or a file is missing or has another size than it had.
  DescribedData(const std::string &path, std::vector<Column> columns);

  int64_t samples() const override { return description.samples(); }
  uint64_t sampleBytes(size_t column) const override {
    return readers[column].bytes;
  }
  OrderChoice order() const override { return description.order; }
  const std::string &path() const override { return description.path; }
  void read(size_t column, const int64_t *samples, int64_t count,
            char *to) override;

private:
  struct Reader {
    size_t column; // of the description
    plan::DType dtype;
    int64_t numbers; // of a sample
    uint64_t bytes;  // of a sample, converted
  };

  DataDescription description;
  std::vector<Reader> readers;
  FilePool files;
  std::vector<char> stored; // a batch as the files have it
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_DESCRIBEDDATA_H
