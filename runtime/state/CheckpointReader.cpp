#include "state/CheckpointReader.h"

#include "FlagOrArgument.h"
#include "plan/Files.h"
#include "state/CheckpointFolder.h"
#include "state/Hash.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace fsdp::checkpoint {

Manifest readManifestFile(const std::string &path) {
  // Of 16,384 ranks and thousands of tensors; and no stranger's file is read
  // for ever.
  constexpr uint64_t mostBytes = uint64_t(4) << 30, deepest = 8;
  std::string text = readRegularFile(path, mostBytes);
  // What parses deeper brackets needs more stack.
  if (nestingOf(text).depth > deepest)
    throw Error(E::CheckpointDamaged,
                path + " is no manifest: its brackets are nested too deep");
  return readManifest(text, path);
}

Manifest readCheckpoint(const std::string &folder) {
  std::string path = folder + "/" + manifestName;
  try {
    return readManifestFile(path);
  } catch (const Error &error) {
    throw Damage(error.what(), error.kind);
  }
}

void requireOwnName(const std::string &folder, const Manifest &manifest) {
  std::string own = Folder("").pathOf(manifest.run.step).substr(1);
  std::string name = std::filesystem::path(folder).filename().string();
  if (name != own)
    throw Damage(folder + " is the checkpoint of step " +
                 std::to_string(manifest.run.step) +
                 " under another one's name; call it " + own +
                 " again, or name it in " +
                 flagOrArgument("--resume", "resume=") + " to go on from it");
}

std::string readLoaderState(const std::string &folder, const Manifest &manifest,
                            int rank) {
  auto found = std::find_if(
      manifest.loaders.begin(), manifest.loaders.end(),
      [&](const StoredLoader &loader) { return loader.rank == rank; });
  if (found == manifest.loaders.end())
    return "";
  std::string path = folder + "/" + loaderName(rank), state;
  try {
    state = readRegularFile(path, found->bytes);
  } catch (const Error &error) {
    throw Damage(error.what());
  }
  if (state.size() != found->bytes ||
      hashOf(state.data(), state.size()) != found->hash)
    throw Damage(path + " is damaged: it is not the state of the loader that "
                        "was written");
  return state;
}

SafeTensorsFile &Reader::file(uint32_t index) {
  const StoredFile &entry = manifest.files.at(index);
  if (files[index])
    return *files[index];
  std::string path = folder + "/" + entry.name;
  auto opened = std::make_unique<SafeTensorsFile>(path);
  std::string header = opened->header();
  if (opened->bytes() != entry.bytes || header.size() != entry.headerBytes ||
      hashOf(header.data(), header.size()) != entry.headerHash)
    throw Damage(path + " is damaged: its header is not the one that was "
                        "written");
  files[index] = std::move(opened);
  return *files[index];
}

/// The elements that two parts of a tensor have in common, as bytes.
template <typename Segment>
static std::vector<Segment> common(const Part &chunk, const Part &wanted,
                                   int64_t elementBytes) {
  std::vector<Segment> segments;
  std::vector<Run> stored = chunk.runs(), runs = wanted.runs();
  for (size_t i = 0, j = 0; i < stored.size() && j < runs.size();) {
    const Run &a = stored[i], &b = runs[j];
    int64_t begin = std::max(a.whole, b.whole);
    int64_t aEnd = a.whole + a.count, bEnd = b.whole + b.count;
    int64_t end = std::min(aEnd, bEnd);
    if (begin < end)
      segments.push_back({(a.local + begin - a.whole) * elementBytes,
                          (b.local + begin - b.whole) * elementBytes,
                          (end - begin) * elementBytes});
    (aEnd < bEnd ? i : j)++;
  }
  return segments;
}

void Reader::read(const StoredTensor &tensor, const Part &wanted, int rank,
                  char *local) {
  int64_t missing = wanted.count() * tensor.elementBytes();
  int owner = static_cast<uint32_t>(rank) < manifest.ranks() ? rank : 0;
  for (const Chunk &chunk : tensor.chunks) {
    if (tensor.isPerRank && chunk.rank != owner)
      continue;
    auto segments = common<Segment>(chunk.part, wanted, tensor.elementBytes());
    for (const Segment &segment : segments)
      missing -= segment.bytes;
    try {
      readChunk(tensor, chunk, segments, local);
    } catch (const Damage &) {
      throw;
    } catch (const std::exception &error) {
      throw Damage(error.what());
    }
  }
  if (missing)
    throw Damage(folder + " does not have all of " + tensor.name);
}

void Reader::readChunk(const StoredTensor &tensor, const Chunk &chunk,
                       const std::vector<Segment> &segments, char *local) {
  if (segments.empty())
    return;
  SafeTensorsFile &from = file(chunk.file);
  const FileTensor *entry = from.find(tensor.name);
  int64_t bytes = chunk.part.count() * tensor.elementBytes();
  int64_t blocks = (bytes + hashBlockBytes - 1) / hashBlockBytes;
  if (!entry || static_cast<int64_t>(entry->bytes) != bytes ||
      static_cast<int64_t>(chunk.hashes.size()) != blocks)
    throw Damage(from.path() + " has no such " + tensor.name +
                 " as the manifest says");
  int64_t loaded = -1; // which block
  for (Segment rest : segments) {
    while (rest.bytes) {
      int64_t wanted = rest.from / hashBlockBytes;
      int64_t begin = wanted * hashBlockBytes;
      int64_t size = std::min(hashBlockBytes, bytes - begin);
      if (wanted != loaded) {
        block.resize(size);
        from.read(*entry, begin, size, block.data());
        if (hashOf(block.data(), size) != chunk.hashes[wanted])
          throw Damage(from.path() + " is damaged: " + tensor.name +
                       " is not what was written, between its bytes " +
                       std::to_string(begin) + " and " +
                       std::to_string(begin + size));
        loaded = wanted;
      }
      int64_t count = std::min(rest.bytes, begin + size - rest.from);
      std::memcpy(local + rest.to, block.data() + rest.from - begin, count);
      rest.from += count;
      rest.to += count;
      rest.bytes -= count;
    }
  }
}

} // namespace fsdp::checkpoint
