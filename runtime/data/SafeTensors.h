#ifndef FSDP_RUNTIME_DATA_SAFETENSORS_H
#define FSDP_RUNTIME_DATA_SAFETENSORS_H

#include "data/SafeTensorsFile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// Writes a safetensors file whose tensors arrive one by one, in any order,
/// into a temporary file that takes the final name when all is written. What
/// writers of that name left who were killed is removed.
class SafeTensorsWriter {
public:
  struct Tensor {
    std::string name;
    plan::DType dtype;
    std::vector<int64_t> shape;
  };
  /// Throws Error when the file cannot be made or a dtype has no name in the
  /// format.
  SafeTensorsWriter(const std::string &path, std::vector<Tensor> tensors);
  /// Removes what was not finished.
  ~SafeTensorsWriter();

  /// `data` is row-major and complete. Throws Error when the disk is full.
  void write(const std::string &tensor, const void *data);
  /// Writes `bytes` of a tensor, from its byte `begin` on. Each byte is written
  /// once.
  void write(const std::string &tensor, uint64_t begin, const void *data,
             uint64_t bytes);
  const std::string &partialPath() const { return temporary; }
  /// Throws Error when a tensor was not written, or not all of it.
  void finish();

private:
  struct Range {
    uint64_t begin, bytes;
    uint64_t written = 0;
  };
  void writeAt(const void *data, uint64_t bytes, uint64_t offset);
  std::string path, temporary;
  int file = -1;
  std::map<std::string, Range> ranges;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAFETENSORS_H
