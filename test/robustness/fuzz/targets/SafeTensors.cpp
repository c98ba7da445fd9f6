// A safetensors file: as it is, or as a header in front of 64 bytes of data.
// What is accepted is read.
#include "FuzzTarget.h"

#include "Error.h"
#include "data/SafeTensorsFile.h"

#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace fsdp;

namespace {

/// A file in memory, which has a name as long as it lives.
class MemoryFile {
public:
  explicit MemoryFile(const std::string &bytes)
      : descriptor(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (write(descriptor, bytes.data(), bytes.size()) !=
        static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  ~MemoryFile() { close(descriptor); }
  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor);
  }

private:
  int descriptor;
};

std::string asFile(std::string bytes) {
  if (bytes.empty() || bytes[0] != '{')
    return bytes;
  std::string length;
  for (unsigned i = 0; i < 8; ++i)
    length += static_cast<char>(bytes.size() >> (8 * i));
  return length + bytes + std::string(64, 'x');
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MemoryFile memory(asFile({reinterpret_cast<const char *>(data), size}));
  try {
    SafeTensorsFile file(memory.path());
    for (const auto &[name, tensor] : file.tensors()) {
      // Exactly as large as the header says.
      std::vector<char> bytes(tensor.bytes);
      file.read(tensor, 0, tensor.bytes, bytes.data());
    }
  } catch (const Error &) {
  }
  return 0;
}
