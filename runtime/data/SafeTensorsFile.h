#ifndef FSDP_RUNTIME_DATA_SAFETENSORSFILE_H
#define FSDP_RUNTIME_DATA_SAFETENSORSFILE_H

#include "plan/PlanTypes.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// Where a tensor lies in a file; row-major.
struct FileTensor {
  plan::DType dtype;
  std::vector<int64_t> shape;
  uint64_t offset; // of its first byte in the file
  uint64_t bytes;
};

/// An open safetensors file, of which only the header is in memory.
class SafeTensorsFile {
public:
  /// Throws Error, naming the file, when it is missing, truncated, or anything
  /// in its header is not as the format says: offsets that overlap, leave holes
  /// or do not fit shape and dtype.
  explicit SafeTensorsFile(const std::string &path);
  ~SafeTensorsFile();
  SafeTensorsFile(const SafeTensorsFile &) = delete;
  SafeTensorsFile &operator=(const SafeTensorsFile &) = delete;

  /// Null when there is none of that name.
  const FileTensor *find(const std::string &name) const;
  /// Reads `bytes` of a tensor, from its byte `begin` on, into `data`. Throws
  /// Error when the file cannot be read.
  void read(const FileTensor &tensor, uint64_t begin, uint64_t bytes,
            void *data) const;

  /// All that stands before the data.
  std::string header() const;

  const std::map<std::string, FileTensor> &tensors() const { return entries; }
  const std::map<std::string, std::string> &metadata() const { return notes; }
  const std::string &path() const { return name; }
  uint64_t bytes() const { return size; }
  int descriptor() const { return file; }

private:
  void parse();
  void readAt(void *data, uint64_t bytes, uint64_t offset) const;
  std::string name;
  int file = -1;
  uint64_t size = 0, dataBegin = 0;
  std::map<std::string, FileTensor> entries;
  std::map<std::string, std::string> notes;
};

/// "float32[3, 4]".
std::string describe(plan::DType dtype, const std::vector<int64_t> &shape);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAFETENSORSFILE_H
