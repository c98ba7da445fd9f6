// Reads and checks fsdp.json.

#include "ArchiveMetadata.h"

#include "ArchiveBounds.h"
#include "ArchiveDigests.h"
#include "ArchiveOptimizer.h"
#include "ArchivePrograms.h"
#include "ArchiveRecipes.h"
#include "ArchiveTraining.h"
#include "ArchiveTurns.h"
#include "JsonReader.h"
#include "plan/DTypes.h"
#include "plan/ProgramNames.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace fsdp;

/// Of the archives that this program reads, and `fsdp_mlir.export` writes.
static constexpr int64_t formatVersion = 10;

static ModuleInfo readModule(const JsonReader &json) {
  ModuleInfo info;
  info.path = json["path"].asString();
  info.className = json["class"].asString();
  // `container` may be left out: most modules are none.
  info.container = json.has("container") && json["container"].asBool();
  info.aliases = json["aliases"].asStrings();
  return info;
}

/// The mesh: its device, or null, its sizes, and names of its dimensions, or
/// none.
static void readMesh(const JsonReader &json, ArchiveMetadata &metadata) {
  if (json.isNull())
    return;
  if (!json["device"].isNull())
    metadata.meshDevice = json["device"].asOneOf({"cpu", "cuda"});
  json["shape"].forEach([&](const JsonReader &size) {
    metadata.mesh.push_back(size.asInt());
    if (size.asInt() < 1 || size.asInt() > 65536)
      size.fail("a number of ranks from 1 to 65536");
  });
  if (metadata.mesh.empty())
    json["shape"].fail("of one dimension or more");
  if (json["names"].isNull())
    return;
  metadata.meshNames = json["names"].asStrings();
  if (metadata.meshNames.size() != metadata.mesh.size())
    json["names"].fail("null or a name for each dimension");
}

static std::string readFloat(const JsonReader &json) {
  static const std::set<std::string> dtypes = plan::floatingNames();
  return json.asOneOf(dtypes);
}

static UnitInfo readUnit(const JsonReader &json,
                         const std::set<std::string> &modules) {
  UnitInfo unit;
  unit.name = json["name"].asString();
  json["modules"].forEach([&](const JsonReader &module) {
    if (!modules.count(module.asString()))
      module.fail("the path of a module");
    unit.modules.push_back(module.asString());
  });
  unit.root = json["root"].asBool();
  JsonReader reshard = json["reshard_after_forward"];
  if (reshard.isInt())
    unit.reshardRanks = reshard.asInt();
  else if (!reshard.isNull())
    unit.reshard = reshard.asBool();
  if (unit.reshardRanks && *unit.reshardRanks < 2)
    reshard.fail("true, false, null or a number of ranks from 2 on");
  auto readPolicy = [&](const char *name) {
    JsonReader dtype = json[name];
    return dtype.isNull() ? std::nullopt : std::optional(readFloat(dtype));
  };
  unit.paramDtype = readPolicy("param_dtype");
  unit.reduceDtype = readPolicy("reduce_dtype");
  readPolicy("output_dtype");
  json["cast_forward_inputs"].asBool();
  JsonReader offload = json["offload"];
  if (!offload.isNull())
    unit.offload = OffloadInfo{offload["pin_memory"].asBool()};
  if (JsonReader divisor = json["gradient_divisor"]; !divisor.isNull()) {
    unit.gradientDivisor = divisor.asDouble();
    if (!(*unit.gradientDivisor > 0 && std::isfinite(*unit.gradientDivisor)))
      divisor.fail("null or a number above 0");
  }
  unit.prefetchForward = json["prefetch_forward"].asStrings();
  unit.prefetchBackward = json["prefetch_backward"].asStrings();
  return unit;
}

static ArchiveMetadata readFields(const JsonReader &json) {
  ArchiveMetadata metadata;
  metadata.torchVersion = json["torch_version"].asString();
  if (metadata.torchVersion != TORCH_VERSION_TEXT)
    throw ArchiveError(E::ArchiveVersion,
                       "was written with PyTorch " + metadata.torchVersion +
                           ", this program is built with " TORCH_VERSION_TEXT
                           "; export again with that version");
  metadata.source = json["source"].asString();
  json["modules"].forEach([&](const JsonReader &module) {
    metadata.modules.push_back(readModule(module));
  });
  readMesh(json["mesh"], metadata);
  metadata.ranks = json["ranks"].asInt();
  if (metadata.ranks < 0)
    json["ranks"].fail("a number of ranks, or 0");
  std::set<std::string> paths, units;
  for (const ModuleInfo &module : metadata.modules)
    paths.insert(module.path);
  json["units"].forEach([&](const JsonReader &unit) {
    metadata.units.push_back(readUnit(unit, paths));
    if (!units.insert(metadata.units.back().name).second)
      unit["name"].fail("a name of its own");
  });
  json["units"].forEach([&](const JsonReader &unit) {
    for (const char *list : {"prefetch_forward", "prefetch_backward"})
      unit[list].forEach([&](const JsonReader &name) {
        if (!units.count(name.asString()))
          name.fail("the name of a unit");
      });
  });

  std::set<std::string> names;
  auto readState = [&](const JsonReader &state) {
    StateInfo info;
    info.fqn = readFqn(state["fqn"]);
    if (!names.insert(info.fqn).second)
      state["fqn"].fail("a name of its own");
    info.type = readTensor(state);
    return info;
  };
  json["parameters"].forEach([&](const JsonReader &state) {
    StateInfo info = readState(state);
    info.aliases = state["aliases"].asStrings();
    info.trainable = state["trainable"].asBool();
    info.init = readRecipe(state["init"]);
    if (JsonReader unit = state["unit"]; !unit.isNull()) {
      info.unit = unit.asString();
      if (!units.count(*info.unit))
        unit.fail("null or the name of a unit");
    }
    info.shardDim = state["shard_dim"].asInt();
    if (info.shardDim != 0 &&
        (info.shardDim < 0 || info.shardDim >= int64_t(info.type.shape.size())))
      state["shard_dim"].fail("one of its dimensions");
    metadata.parameters.push_back(info);
  });
  std::set<std::string> parameters = names;
  json["buffers"].forEach([&](const JsonReader &state) {
    StateInfo info = readState(state);
    info.aliases = state["aliases"].asStrings();
    info.persistent = state["persistent"].asBool();
    info.init = readRecipe(state["init"]);
    metadata.buffers.push_back(info);
  });
  json["constants"].forEach([&](const JsonReader &state) {
    metadata.constants.push_back(readState(state));
  });
  std::set<std::string> inputs;
  json["inputs"].forEach([&](const JsonReader &input) {
    InputInfo info{readFqn(input["name"]), readTensor(input),
                   input["source"].asOneOf({"data", "repeat"}) == "repeat"};
    if (!inputs.insert(info.name).second)
      input["name"].fail("a name of its own");
    metadata.inputs.push_back(info);
  });
  readTraining(json, parameters, metadata);
  metadata.seed = json["seed"].asInt();
  json["rank_metrics"].forEach(
      [](const JsonReader &metric) { metric.fail("known: it must be empty"); });

  JsonReader programs = json["programs"];
  if (!programs.has(plan::stepProgramName))
    throw ArchiveError(E::ArchiveContents,
                       "has no program `step`; export a training step");
  programs.forEachField([&](const std::string &name, const JsonReader &value) {
    ProgramInfo program = readProgram(value);
    if (JsonReader first = value["variant_of"]; !first.isNull())
      program.variantOf = readName(first);
    if (JsonReader turn = value["turn"]; !turn.isNull())
      program.turn = readName(turn);
    if (JsonReader next = value["next"]; !next.isNull())
      program.next = readName(next);
    checkReferences(name, program, metadata);
    metadata.programs[name] = std::move(program);
  });
  checkVariants(metadata);
  checkMissed(metadata);
  checkTurns(metadata);
  return metadata;
}

ArchiveMetadata fsdp::readMetadata(const TorchArchive &archive) {
  const std::vector<std::string> &names = archive.getRecordNames();
  if (std::find(names.begin(), names.end(), kMetadataRecord) == names.end())
    throw ArchiveError(E::ArchiveDamaged,
                       "has no fsdp.json: it is a TorchScript archive that "
                       "`python -m fsdp_mlir.export` did not write");
  const std::string &text = archive.getRecord(kMetadataRecord);
  checkDepth(kMetadataRecord, text);
  try {
    nlohmann::json parsed = nlohmann::json::parse(text);
    JsonReader json(parsed);
    if (json["format"].asString() != "fsdp-mlir")
      json["format"].fail("\"fsdp-mlir\"");
    if (json["format_version"].asInt() != formatVersion)
      throw ArchiveError(E::ArchiveVersion,
                         "has format version " +
                             std::to_string(json["format_version"].asInt()) +
                             ", this program reads " +
                             std::to_string(formatVersion) +
                             "; export again with this version");
    std::map<std::string, std::string> digests;
    json["sha256"]["records"].forEachField(
        [&](const std::string &name, const JsonReader &digest) {
          digests[name] = digest.asString();
        });
    checkDigests(archive, digests, json["sha256"]["metadata"].asString());
    return readFields(json);
  } catch (const nlohmann::json::exception &error) {
    throw ArchiveError(E::ArchiveContents,
                       std::string("has an fsdp.json that is not JSON (") +
                           error.what() + "); export again");
  }
}
