// How long a rank's shards take to the disk, with hashes and without: a line of
// JSON with the milliseconds of each round, one after the other in turns.
//
//   saving_bench FOLDER MIB ROUNDS
//
// Without hashes are the same files, of the same bytes.
#include "Error.h"
#include "PlanBuilder.h"
#include "ThreadRanks.h"
#include "data/UncachedFile.h"
#include "executor/HostBackend.h"
#include "plan/Files.h"
#include "state/CheckpointWriter.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr int64_t rows = 512, tensorMib = 2,
                  columns = tensorMib * 1024 / 4 * 1024 / rows;

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

/// Parameters of so many MiB in all.
std::unique_ptr<PlanBuilder> parametersOf(int64_t mib) {
  auto builder = std::make_unique<PlanBuilder>(1);
  for (int64_t i = 0; i < mib / tensorMib; ++i)
    builder->state("w" + std::to_string(i), plan::Role::Parameter,
                   {rows, columns});
  builder->program("step");
  builder->finish();
  return builder;
}

struct Round {
  std::vector<double> ms, cpuMs;
};

/// Saves `round` once, from nothing to all on the disk.
void measure(Round &round, const std::string &partial,
             const std::function<void()> &save) {
  std::filesystem::remove_all(partial);
  std::filesystem::create_directories(partial);
  double begin = seconds(CLOCK_MONOTONIC);
  double busy = seconds(CLOCK_PROCESS_CPUTIME_ID);
  save();
  round.ms.push_back(1e3 * (seconds(CLOCK_MONOTONIC) - begin));
  round.cpuMs.push_back(1e3 * (seconds(CLOCK_PROCESS_CPUTIME_ID) - busy));
}

nlohmann::json compare(const std::string &path, int64_t mib, int rounds) {
  auto builder = parametersOf(mib);
  ThreadRanks group(1);
  auto communicator = group.connect(0);
  HostBackend backend(*communicator);
  Executor executor(builder->plan, backend, {});
  checkpoint::Shards shards(builder->plan, 0);
  shards.take(executor);
  checkpoint::Folder folder(path);
  checkpoint::Facts facts;
  facts.mesh = {{"shard", 1}};
  facts.run.epochLosses = {0};
  std::string partial = folder.partialPathOf(0), manifest;
  std::atomic<bool> cancelled = false;
  Round hashed, plain;
  for (int i = 0; i <= rounds; ++i) {
    measure(hashed, partial, [&] {
      checkpoint::writeShards(folder, shards, facts, 0, cancelled);
    });
    std::string file, rest;
    for (const auto &entry : std::filesystem::directory_iterator(partial))
      (entry.path().extension() == ".json" ? rest : file) =
          entry.path().filename();
    manifest = readRegularFile(partial + "/" + rest, 1 << 30);
    measure(plain, partial, [&] {
      writeUncached(partial + "/" + file, shards.file(), shards.bytes(), [] {});
      writeFileAtomically(manifest, partial + "/" + rest, Durability::Machine);
    });
    if (i == 0) // the disk has found its place
      hashed = plain = {};
  }
  std::filesystem::remove_all(partial);
  return {{"bytes", shards.bytes()},
          {"hashed_ms", hashed.ms},
          {"plain_ms", plain.ms},
          {"hashed_cpu_ms", hashed.cpuMs},
          {"plain_cpu_ms", plain.cpuMs}};
}

} // namespace

int main(int count, char **words) {
  if (count != 4) {
    std::cerr << "usage: saving_bench FOLDER MIB ROUNDS\n";
    return 2;
  }
  try {
    std::cout << compare(words[1], std::atoll(words[2]), std::atoi(words[3]))
              << std::endl;
  } catch (const Error &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
