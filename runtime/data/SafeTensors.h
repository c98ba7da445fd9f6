#ifndef FSDP_RUNTIME_DATA_SAFETENSORS_H
#define FSDP_RUNTIME_DATA_SAFETENSORS_H

#include "data/SafeTensorsFile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// How tensors lie in a safetensors file: behind the header, one after the
/// other, those of wide types first, so that each is aligned.
class SafeTensorsLayout {
public:
  struct Tensor {
    std::string name;
    plan::DType dtype;
    std::vector<int64_t> shape;
  };
  struct Range {
    uint64_t begin, bytes; // in the file
  };
  /// Throws Error when a dtype has no name in the format.
  explicit SafeTensorsLayout(std::vector<Tensor> tensors);

  /// All that stands before the data.
  const std::string &header() const { return text; }
  const std::map<std::string, Range> &ranges() const { return places; }
  /// Of the file.
  uint64_t bytes() const { return end; }

private:
  std::string text;
  std::map<std::string, Range> places;
  uint64_t end = 0;
};

/// Writes a safetensors file whose tensors arrive one by one, in any order,
/// into a temporary file that takes the final name when all is written. What
/// writers of that name left who were killed is removed.
class SafeTensorsWriter {
public:
  using Tensor = SafeTensorsLayout::Tensor;
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
  /// Removes what is unfinished.
  void discard();
  void writeAt(const void *data, uint64_t bytes, uint64_t offset);
  SafeTensorsLayout layout;
  std::string path, temporary;
  int file = -1;
  std::map<std::string, uint64_t> written; // bytes of each tensor
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAFETENSORS_H
