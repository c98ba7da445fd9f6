// A safetensors file in memory, for tests of what was written.
#ifndef FSDP_TEST_UNIT_STOREDTENSORS_H
#define FSDP_TEST_UNIT_STOREDTENSORS_H

#include "data/SafeTensorsFile.h"

#include <map>
#include <string>
#include <vector>

namespace fsdp::test {

struct StoredTensor {
  plan::DType dtype;
  std::vector<int64_t> shape;
  const char *data;
  uint64_t bytes;
};

class SafeTensors {
public:
  explicit SafeTensors(const std::string &path) : file(path) {
    for (const auto &[name, tensor] : file.tensors()) {
      std::vector<char> &data = contents[name];
      data.resize(tensor.bytes);
      file.read(tensor, 0, tensor.bytes, data.data());
      entries[name] = {tensor.dtype, tensor.shape, data.data(), tensor.bytes};
    }
  }

  /// Null where there is none of that name.
  const StoredTensor *find(const std::string &name) const {
    auto entry = entries.find(name);
    return entry == entries.end() ? nullptr : &entry->second;
  }
  const std::map<std::string, StoredTensor> &tensors() const { return entries; }
  const std::map<std::string, std::string> &metadata() const {
    return file.metadata();
  }

private:
  SafeTensorsFile file;
  std::map<std::string, std::vector<char>> contents;
  std::map<std::string, StoredTensor> entries;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_STOREDTENSORS_H
