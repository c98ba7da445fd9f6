#include "state/CheckpointWriter.h"

#include "Error.h"
#include "data/UncachedFile.h"
#include "plan/Files.h"
#include "state/CheckpointReader.h"
#include "state/Hash.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>
#include <unistd.h>
#include <unordered_map>

namespace fsdp::checkpoint {

/// A rank's own manifest, until all are one.
static std::string partName(int rank) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank-%05d.json", rank);
  return name;
}

static StoredTensor describe(const Shard &shard, const Shards &shards,
                             int rank) {
  StoredTensor tensor;
  static_cast<NamedTensor &>(tensor) = shard.tensor;
  tensor.role = shard.tensor.state->role;
  tensor.parameter = shard.parameter;
  tensor.isPerRank = shard.isPerRank;
  Chunk chunk;
  chunk.part = shard.part;
  chunk.rank = shard.isPerRank ? rank : 0;
  chunk.hashes = hashesOf(shards.data(shard), shard.bytes());
  tensor.chunks.push_back(std::move(chunk));
  return tensor;
}

namespace {

/// Describes the shards in a thread of its own, with their hashes: while a
/// block is on its way to the disk, the thread that writes has nothing to do.
class Describing {
public:
  Describing(const Shards &shards, int rank)
      : tensors(std::async(std::launch::async, [this, &shards, rank] {
          std::vector<StoredTensor> all;
          for (const Shard &shard : shards.list()) {
            if (givenUp)
              break;
            all.push_back(describe(shard, shards, rank));
          }
          return all;
        })) {}
  /// Soon after somebody has given up the writing.
  ~Describing() { givenUp = true; }

  std::vector<StoredTensor> wait() { return tensors.get(); }

private:
  std::atomic<bool> givenUp = false;
  // The last one, whose end waits for the thread.
  std::future<std::vector<StoredTensor>> tensors;
};

} // namespace

static StoredFile describeFile(const Shards &shards, int rank) {
  StoredFile file;
  file.name = shardName(rank);
  file.bytes = shards.bytes();
  file.headerBytes = shards.header().size();
  file.headerHash = hashOf(shards.header().data(), shards.header().size());
  return file;
}

void writeShards(const Folder &folder, const Shards &shards, const Facts &facts,
                 int rank, const std::atomic<bool> &cancelled) {
  auto goOn = [&] {
    if (cancelled)
      throw Cancelled();
  };
  std::string partial = folder.partialPathOf(facts.run.step);
  Manifest mine;
  mine.run = facts.run;
  mine.plan = facts.plan;
  mine.mesh = facts.mesh;
  mine.files.push_back(describeFile(shards, rank));
  Describing describing(shards, rank);
  writeUncached(partial + "/" + shardName(rank), shards.file(), shards.bytes(),
                goOn);
  mine.tensors = describing.wait();
  if (!facts.loader.empty()) {
    writeFileAtomically(facts.loader, partial + "/" + loaderName(rank),
                        Durability::Machine);
    mine.loaders.push_back({rank, facts.loader.size(),
                            hashOf(facts.loader.data(), facts.loader.size())});
  }
  writeFileAtomically(writeManifest(mine), partial + "/" + partName(rank),
                      Durability::Machine);
}

/// Puts a rank's manifest behind those of the ranks before it.
static void append(Manifest &all,
                   std::unordered_map<std::string, size_t> &indexOf,
                   Manifest part) {
  uint32_t file = all.files.size();
  all.files.push_back(std::move(part.files.at(0)));
  all.loaders.insert(all.loaders.end(), part.loaders.begin(),
                     part.loaders.end());
  all.run.epochLosses.push_back(part.run.epochLosses.at(0));
  for (StoredTensor &tensor : part.tensors) {
    for (Chunk &chunk : tensor.chunks)
      chunk.file = file;
    auto [found, isNew] = indexOf.try_emplace(tensor.name, all.tensors.size());
    if (isNew) {
      all.tensors.push_back(std::move(tensor));
    } else {
      auto &chunks = all.tensors[found->second].chunks;
      chunks.insert(chunks.end(), tensor.chunks.begin(), tensor.chunks.end());
    }
  }
}

void commitShards(const Folder &folder, const Facts &facts,
                  const std::atomic<bool> &cancelled) {
  std::string partial = folder.partialPathOf(facts.run.step);
  Manifest all;
  all.run = facts.run;
  all.run.epochLosses.clear();
  all.plan = facts.plan;
  all.mesh = facts.mesh;
  std::unordered_map<std::string, size_t> indexOf;
  for (uint32_t rank = 0; rank < all.ranks(); ++rank) {
    std::string path = partial + "/" + partName(rank);
    while (access(path.c_str(), F_OK) != 0) {
      if (cancelled)
        throw Cancelled();
      // Nothing would ever come.
      if (access(partial.c_str(), F_OK) != 0)
        throw Error(E::CheckpointFolder,
                    partial + " was removed while it was written");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    append(all, indexOf, readManifestFile(path));
  }
  writeFileAtomically(writeManifest(all), partial + "/" + manifestName,
                      Durability::Machine);
  for (uint32_t rank = 0; rank < all.ranks(); ++rank)
    std::filesystem::remove(partial + "/" + partName(rank));
  folder.commit(facts.run.step);
}

} // namespace fsdp::checkpoint
