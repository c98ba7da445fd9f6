#ifndef FSDP_RUNTIME_DATA_DATADESCRIPTION_H
#define FSDP_RUNTIME_DATA_DATADESCRIPTION_H

#include "data/FileDType.h"
#include "data/SampleOrder.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Where samples lie in files of others, which stay where they are
/// (docs/data.md has the format). Rows of numbers lie one after the other in a
/// range of a file; a sample is a row, or a window of rows.
struct DataDescription {
  struct File {
    std::string path;
    uint64_t bytes;
  };
  struct Part {
    size_t file;
    uint64_t begin; // byte
    int64_t rows;
  };
  struct Window { // in rows; window i begins at row i * stride + offset
    int64_t offset, length, stride;
  };
  struct Column {
    std::string name;
    FileDType dtype;
    std::vector<int64_t> row; // shape
    std::optional<Window> window;
    std::vector<Part> parts;

    uint64_t rowBytes;
    /// Of a part.
    int64_t samplesIn(const Part &part) const;
    /// As the file has it.
    std::vector<int64_t> sampleShape() const;
  };

  std::string path; // of the description
  OrderChoice order;
  std::vector<File> files;
  std::vector<Column> columns;
  /// Of each part's samples; the last one is the number of all.
  std::vector<int64_t> starts = {0};

  int64_t samples() const { return starts.back(); }
};

/// Throws Error, naming the file, where it is no whole description: a member
/// that is missing, unknown or of another kind, a part that lies outside its
/// file, columns whose samples are not as many. Does not look at the files.
DataDescription readDataDescription(const std::string &path);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_DATADESCRIPTION_H
