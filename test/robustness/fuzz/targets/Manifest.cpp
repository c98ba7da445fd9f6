// A checkpoint's manifest, with the hash that its writer would give it. What is
// accepted is written again, and read as the same.
#include "FuzzTarget.h"

#include "Error.h"
#include "state/CheckpointFormat.h"
#include "state/Hash.h"

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace fsdp;

namespace {

/// `{"xxh3_64":"0123456789abcdef",` in front of the rest, its opening brace
/// left out.
std::string withHash(const std::string &rest) {
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx",
                static_cast<unsigned long long>(
                    checkpoint::hashOf(rest.data(), rest.size())));
  return std::string("{\"xxh3_64\":\"") + hash + "\"," + rest;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  if (!text.empty() && text[0] == '{')
    text.erase(0, 1);
  checkpoint::Manifest manifest;
  try {
    manifest = checkpoint::readManifest(withHash(text), "fuzz");
  } catch (const Error &) {
    return 0;
  }
  for (const checkpoint::StoredTensor &tensor : manifest.tensors)
    for (const checkpoint::Chunk &chunk : tensor.chunks)
      checkpoint::shapeOfChunk(chunk.part, tensor.shape);
  std::string written = checkpoint::writeManifest(manifest);
  if (checkpoint::writeManifest(checkpoint::readManifest(written, "again")) !=
      written)
    std::abort();
  return 0;
}
