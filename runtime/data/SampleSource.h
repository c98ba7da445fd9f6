#ifndef FSDP_RUNTIME_DATA_SAMPLESOURCE_H
#define FSDP_RUNTIME_DATA_SAMPLESOURCE_H

#include "data/SampleOrder.h"
#include "plan/PlanTypes.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// What a program reads: shape[0] is one rank's batch.
struct Column {
  std::string name;
  plan::DType dtype;
  std::vector<int64_t> shape;
};

/// Samples that can be read in any order, by number.
class SampleSource {
public:
  virtual ~SampleSource() = default;

  virtual int64_t samples() const = 0;
  /// Of a sample as the program reads it.
  virtual uint64_t sampleBytes(size_t column) const = 0;
  /// The order that the samples ask for.
  virtual OrderChoice order() const { return {}; }
  /// For messages.
  virtual const std::string &path() const = 0;

  /// Copies sample after sample of a column, row-major. Throws Error when a
  /// file cannot be read, or has become shorter than it was.
  virtual void read(size_t column, const int64_t *samples, int64_t count,
                    char *to) = 0;
};

/// Opens a description of files (`.json`), a safetensors file or a folder of
/// some. Throws Error listing what does not fit the columns.
std::unique_ptr<SampleSource> openSamples(const std::string &path,
                                          std::vector<Column> columns);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAMPLESOURCE_H
