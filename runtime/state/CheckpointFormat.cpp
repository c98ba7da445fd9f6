#include "state/CheckpointFormat.h"

#include "Error.h"
#include "plan/Names.h"
#include "state/Hash.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace fsdp::checkpoint {

using Json = nlohmann::ordered_json;

static constexpr const char *formatName = "fsdp-mlir checkpoint";
static constexpr int formatVersion = 1;
/// More than any run has.
static constexpr uint64_t mostRanks = uint64_t(1) << 24;

uint32_t Manifest::ranks() const {
  uint32_t ranks = 1;
  for (const auto &[name, size] : mesh)
    ranks *= size;
  return ranks;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

static uint64_t fromHex(const std::string &text) {
  if (text.size() != 16 ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Error(E::CheckpointDamaged, "'" + text + "' is no hash");
  return std::stoull(text, nullptr, 16);
}

/// JSON has no infinity and no NaN.
static Json number(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  return value;
}

static double toNumber(const Json &json) {
  if (!json.is_string())
    return json.get<double>();
  double infinity = std::numeric_limits<double>::infinity();
  const std::string &text = json.get_ref<const std::string &>();
  return text == "nan" ? std::nan("") : text == "inf" ? infinity : -infinity;
}

static plan::Role roleOf(const std::string &name) {
  for (plan::Role role : plan::EnumValuesRole())
    if (plan::nameOf(role) == name)
      return role;
  throw Error(E::CheckpointDamaged, "'" + name + "' is no role of a tensor");
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static Json toJson(const RunPosition &run) {
  Json json;
  json["step"] = run.step;
  json["seed"] = run.seed;
  json["epoch"] = run.epoch;
  json["samples_in_epoch"] = run.samplesInEpoch;
  json["samples"] = run.samples;
  json["epoch_steps"] = run.epochSteps;
  json["epoch_losses"] = Json::array();
  for (double loss : run.epochLosses)
    json["epoch_losses"].push_back(number(loss));
  json["metrics"] = Json::object();
  for (const auto &[name, value] : run.metrics)
    json["metrics"][name] = number(value);
  return json;
}

static Json toJson(const Chunk &chunk) {
  Json json;
  json["file"] = chunk.file;
  json["begin"] = chunk.part.whole;
  json["length"] = chunk.part.length;
  if (chunk.part.repeat != 1) {
    json["repeat"] = chunk.part.repeat;
    json["stride"] = chunk.part.wholeStride;
  }
  if (chunk.rank)
    json["rank"] = chunk.rank;
  json["hashes"] = Json::array();
  for (uint64_t hash : chunk.hashes)
    json["hashes"].push_back(hex(hash));
  return json;
}

static Json toJson(const StoredTensor &tensor) {
  Json json;
  json["name"] = tensor.name;
  json["role"] = plan::nameOf(tensor.role);
  if (!tensor.parameter.empty())
    json["parameter"] = tensor.parameter;
  if (!tensor.aliases.empty())
    json["aliases"] = tensor.aliases;
  json["dtype"] = plan::dtypeName(tensor.dtype);
  json["shape"] = tensor.shape;
  if (tensor.isPerRank)
    json["per_rank"] = true;
  json["chunks"] = Json::array();
  for (const Chunk &chunk : tensor.chunks)
    json["chunks"].push_back(toJson(chunk));
  return json;
}

/// What stands before the text that is hashed.
static std::string hashField(uint64_t hash) {
  return "{\"xxh3_64\":\"" + hex(hash) + "\",";
}

std::string writeManifest(const Manifest &manifest) {
  Json json;
  json["format"] = formatName;
  json["version"] = formatVersion;
  json["run"] = toJson(manifest.run);
  json["plan"] = manifest.plan;
  json["mesh"] = Json::array();
  for (const auto &[name, size] : manifest.mesh)
    json["mesh"].push_back({{"name", name}, {"size", size}});
  json["hash_block_bytes"] = hashBlockBytes;
  json["files"] = Json::array();
  for (const StoredFile &file : manifest.files)
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"header_bytes", file.headerBytes},
                             {"header_hash", hex(file.headerHash)}});
  for (const StoredLoader &loader : manifest.loaders)
    json["loaders"].push_back({{"rank", loader.rank},
                               {"bytes", loader.bytes},
                               {"hash", hex(loader.hash)}});
  json["tensors"] = Json::array();
  for (const StoredTensor &tensor : manifest.tensors)
    json["tensors"].push_back(toJson(tensor));
  // Without the opening brace, which is the prefix's.
  std::string text = json.dump().substr(1) + "\n";
  return hashField(hashOf(text.data(), text.size())) + text;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// A number of an integer's type: the library would cut any other one.
template <typename Integer> static Integer integer(const Json &json) {
  bool fits = json.is_number_integer();
  if (fits && json.is_number_unsigned())
    fits = json.get<uint64_t>() <=
           static_cast<uint64_t>(std::numeric_limits<Integer>::max());
  else if (fits) // which holds negative ones alone, and what is set by hand
    fits = std::is_signed_v<Integer>
               ? json.get<int64_t>() >=
                     static_cast<int64_t>(std::numeric_limits<Integer>::min())
               : json.get<int64_t>() >= 0;
  if (!fits)
    throw Error(E::CheckpointDamaged, json.dump() + " is no whole number of " +
                                          std::to_string(8 * sizeof(Integer)) +
                                          " bits");
  return json.get<Integer>();
}

template <typename Integer>
static Integer integer(const Json &json, const char *key) {
  return integer<Integer>(json.at(key));
}

template <typename Integer>
static Integer integer(const Json &json, const char *key, Integer otherwise) {
  return json.contains(key) ? integer<Integer>(json.at(key)) : otherwise;
}

static RunPosition runOf(const Json &json) {
  RunPosition run;
  run.step = integer<uint64_t>(json, "step");
  run.seed = integer<int64_t>(json, "seed");
  run.epoch = integer<uint64_t>(json, "epoch");
  run.samplesInEpoch = integer<uint64_t>(json, "samples_in_epoch");
  run.samples = integer<uint64_t>(json, "samples");
  run.epochSteps = integer<uint64_t>(json, "epoch_steps");
  for (const Json &loss : json.at("epoch_losses"))
    run.epochLosses.push_back(toNumber(loss));
  for (const auto &[name, value] : json.at("metrics").items())
    run.metrics.emplace_back(name, toNumber(value));
  return run;
}

static Chunk chunkOf(const Json &json) {
  Chunk chunk;
  chunk.file = integer<uint32_t>(json, "file");
  chunk.part.whole = integer<int64_t>(json, "begin");
  chunk.part.length = integer<int64_t>(json, "length");
  chunk.part.localStride = chunk.part.length;
  chunk.part.repeat = integer<int64_t>(json, "repeat", 1);
  chunk.part.wholeStride = integer<int64_t>(json, "stride", 0);
  chunk.rank = integer<int>(json, "rank", 0);
  for (const Json &hash : json.at("hashes"))
    chunk.hashes.push_back(fromHex(hash));
  return chunk;
}

/// Whether a part lies inside a tensor of so many elements.
static bool fits(const Part &part, int64_t elements) {
  return part.whole >= 0 && part.length > 0 && part.repeat > 0 &&
         part.length <= elements && part.repeat <= elements / part.length &&
         part.whole <= elements - part.length &&
         (part.repeat == 1 ||
          (part.wholeStride >= part.length &&
           part.wholeStride <=
               (elements - part.length - part.whole) / (part.repeat - 1)));
}

static StoredTensor tensorOf(const Json &json) {
  StoredTensor tensor;
  tensor.name = json.at("name");
  tensor.role = roleOf(json.at("role"));
  tensor.parameter = json.value("parameter", "");
  tensor.aliases = json.value("aliases", std::vector<std::string>());
  std::string dtype = json.at("dtype");
  const plan::DTypeInfo *info = plan::findDType(std::string_view(dtype));
  if (!info)
    throw Error(E::CheckpointDamaged,
                tensor.name + " has the unknown dtype " + dtype);
  tensor.dtype = info->dtype;
  for (const Json &size : json.at("shape"))
    tensor.shape.push_back(integer<int64_t>(size));
  tensor.isPerRank = json.value("per_rank", false);
  std::optional<int64_t> elements = plan::numElements(tensor.shape);
  for (const Json &chunk : json.at("chunks")) {
    tensor.chunks.push_back(chunkOf(chunk));
    if (!elements || !fits(tensor.chunks.back().part, *elements))
      throw Error(E::CheckpointDamaged,
                  "a chunk of " + tensor.name + " lies outside of it");
  }
  return tensor;
}

static StoredLoader loaderOf(const Json &json, uint64_t ranks) {
  StoredLoader loader{integer<int>(json, "rank"),
                      integer<uint64_t>(json, "bytes"),
                      fromHex(json.at("hash"))};
  if (loader.rank < 0 || static_cast<uint64_t>(loader.rank) >= ranks)
    throw Error(E::CheckpointDamaged,
                "it has a loader of rank " + std::to_string(loader.rank) +
                    ", and its mesh is of " + std::to_string(ranks) + " ranks");
  return loader;
}

static Manifest manifestOf(const Json &json) {
  if (json.at("format") != formatName)
    throw Error(E::CheckpointDamaged, "it is another kind of file");
  if (json.at("version") != formatVersion)
    throw Error(E::CheckpointVersion, "it has version " +
                                          json.at("version").dump() +
                                          ", this program reads version " +
                                          std::to_string(formatVersion));
  if (json.at("hash_block_bytes") != hashBlockBytes)
    throw Error(E::CheckpointDamaged,
                "its hashes are of blocks of another size");
  Manifest manifest;
  manifest.run = runOf(json.at("run"));
  manifest.plan = json.at("plan");
  uint64_t ranks = 1;
  for (const Json &dim : json.at("mesh")) {
    manifest.mesh.emplace_back(dim.at("name"), integer<uint32_t>(dim, "size"));
    ranks *= manifest.mesh.back().second;
    if (ranks == 0 || ranks > mostRanks)
      throw Error(E::CheckpointDamaged,
                  "its mesh is of " + std::to_string(ranks) + " ranks");
  }
  for (const Json &file : json.at("files")) {
    manifest.files.push_back({file.at("name"), integer<uint64_t>(file, "bytes"),
                              fromHex(file.at("header_hash")),
                              integer<uint64_t>(file, "header_bytes")});
    const std::string &name = manifest.files.back().name;
    // It lies beside the manifest.
    if (name.empty() || name == ".." || name.find('/') != std::string::npos)
      throw Error(E::CheckpointDamaged, "'" + name + "' is no name of a file");
  }
  if (json.contains("loaders"))
    for (const Json &loader : json.at("loaders"))
      manifest.loaders.push_back(loaderOf(loader, ranks));
  for (const Json &tensor : json.at("tensors"))
    manifest.tensors.push_back(tensorOf(tensor));
  return manifest;
}

Manifest readManifest(const std::string &text, const std::string &name) {
  const std::string zero = hashField(0);
  uint64_t hash = text.size() > zero.size() ? hashOf(text.data() + zero.size(),
                                                     text.size() - zero.size())
                                            : 0;
  if (text.compare(0, zero.size(), hashField(hash)) != 0)
    throw Error(E::CheckpointDamaged,
                name + " is damaged: its hash is not that of its text");
  // What follows was written by somebody who meant it; it may still be of
  // another version.
  try {
    return manifestOf(Json::parse(text));
  } catch (const Error &error) {
    throw Error(error.kind, name + " cannot be read: " + error.what());
  } catch (const std::exception &error) {
    throw Error(E::CheckpointDamaged,
                name + " cannot be read: " + error.what());
  }
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

std::vector<int64_t> shapeOfChunk(const Part &part,
                                  const std::vector<int64_t> &shape) {
  // A part that is rows of dimension d: `repeat` is the product of what stands
  // before d, and its length a multiple of what stands behind.
  int64_t outer = 1;
  for (size_t d = 0; d < shape.size() && outer <= part.repeat; ++d) {
    int64_t inner = 1;
    for (size_t e = d + 1; e < shape.size(); ++e)
      inner *= shape[e];
    bool isRows = outer == part.repeat && inner > 0 &&
                  part.whole % inner == 0 && part.length % inner == 0 &&
                  (part.repeat == 1 || part.wholeStride == shape[d] * inner);
    if (isRows) {
      std::vector<int64_t> rows = shape;
      rows[d] = part.length / inner;
      return rows;
    }
    outer *= shape[d];
  }
  return shape.empty() && part.count() == 1
             ? shape
             : std::vector<int64_t>{part.count()};
}

} // namespace fsdp::checkpoint
