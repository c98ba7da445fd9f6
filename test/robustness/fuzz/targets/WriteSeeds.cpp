// write_seeds FOLDER: what plans, manifests and safetensors files begin as,
// each target's in a folder of its own. They are made anew, since formats
// change.
#include "unit/PlanBuilder.h"

#include "data/SafeTensors.h"
#include "plan/PlanFile.h"
#include "state/CheckpointFormat.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

using namespace fsdp;
namespace fs = std::filesystem;

namespace {

void write(const fs::path &file, const std::string &bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  if (!out.flush())
    throw std::runtime_error("cannot write " + file.string());
}

void writePlans(const fs::path &folder) {
  for (unsigned ranks : {1, 2, 5}) {
    auto builder = test::linearRegression(ranks, 3, 5, 4);
    write(folder / ("regression" + std::to_string(ranks)),
          plan::serializePlan(builder->finish()));
  }
}

/// A cut tensor, one that each rank has, and optimizer state.
checkpoint::Manifest manifest() {
  checkpoint::Manifest manifest;
  manifest.run.step = 7;
  manifest.run.epochLosses = {0.5, 0.25};
  manifest.run.metrics = {{"loss", 0.25}};
  manifest.plan = std::string(64, '0');
  manifest.mesh = {{"shard", 2}};
  for (const char *name : {"rank0.safetensors", "rank1.safetensors"})
    manifest.files.push_back({name, 4096, 17, 512});
  manifest.loaders = {{0, 100, 3}, {1, 90, 4}};
  for (const char *name : {"weight", "weight.momentum", "mean"}) {
    checkpoint::StoredTensor tensor;
    tensor.name = name;
    tensor.shape = {4, 6};
    tensor.isPerRank = tensor.name == "mean";
    if (tensor.name == "weight.momentum") {
      tensor.role = plan::Role::Optimizer;
      tensor.parameter = "weight";
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      checkpoint::Chunk chunk;
      chunk.file = rank;
      chunk.rank = tensor.isPerRank ? static_cast<int>(rank) : 0;
      // The left or the right half of each row.
      chunk.part.whole = tensor.isPerRank ? 0 : 3 * rank;
      chunk.part.length = chunk.part.localStride = tensor.isPerRank ? 24 : 3;
      chunk.part.repeat = tensor.isPerRank ? 1 : 4;
      chunk.part.wholeStride = tensor.isPerRank ? 0 : 6;
      chunk.hashes = {rank};
      tensor.chunks.push_back(chunk);
    }
    manifest.tensors.push_back(tensor);
  }
  return manifest;
}

void writeSafeTensors(const fs::path &folder) {
  // The target puts 64 bytes behind a header.
  SafeTensorsLayout layout({{"a", plan::DType::Float32, {2, 3}},
                            {"b", plan::DType::Int64, {4}},
                            {"c", plan::DType::Bool, {8}}});
  std::string header = layout.header();
  write(folder / "header", header.substr(8));
  write(folder / "file",
        header + std::string(layout.bytes() - header.size(), '\0'));
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_seeds FOLDER\n");
    return 2;
  }
  try {
    fs::path folder = argv[1];
    writePlans(folder / "plan");
    std::string text = checkpoint::writeManifest(manifest());
    // The target gives it its hash.
    write(folder / "manifest" / "three-tensors",
          "{" + text.substr(text.find(',') + 1));
    writeSafeTensors(folder / "safetensors");
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
