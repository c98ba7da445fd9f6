// Reads and checks fsdp.json.

#include "ArchiveMetadata.h"

#include "ArchiveDigests.h"
#include "ArchiveRecipes.h"
#include "JsonReader.h"

#include <algorithm>
#include <limits>
#include <set>

using namespace fsdp;

static bool isName(const std::string &text) {
  auto letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9');
         });
}

static std::string readName(const JsonReader &json) {
  std::string name = json.asString();
  if (!isName(name))
    json.fail("a name");
  return name;
}

static std::string readFqn(const JsonReader &json) {
  std::string fqn = json.asString();
  if (fqn.empty())
    json.fail("a name");
  return fqn;
}

static std::string readDtype(const JsonReader &json) {
  static const std::set<std::string> dtypes = {
      "bool",    "uint8",    "int8",    "int16",   "int32",     "int64",
      "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
  return json.asOneOf(dtypes);
}

/// Sizes are bounded so that no product of them overflows later on.
static TensorInfo readTensor(const JsonReader &json) {
  constexpr int64_t limit = int64_t(1) << 48;
  TensorInfo info;
  info.dtype = readDtype(json["dtype"]);
  int64_t elements = 1;
  json["shape"].forEach([&](const JsonReader &size) {
    info.shape.push_back(size.asInt());
    int64_t factor = std::max<int64_t>(info.shape.back(), 1);
    if (info.shape.back() < 0 || factor > limit / elements)
      json["shape"].fail("a shape of at most 2^48 elements");
    elements *= factor;
  });
  json["strides"].forEach([&](const JsonReader &stride) {
    info.strides.push_back(stride.asInt());
    if (info.strides.back() < 0 || info.strides.back() > limit)
      stride.fail("a stride between 0 and 2^48");
  });
  if (info.strides.size() != info.shape.size())
    json["strides"].fail("as long as the shape");
  return info;
}

static NodeInfo readNode(const JsonReader &json) {
  NodeInfo node;
  node.op = json["op"].asString();
  node.overload = json["overload"].asString();
  json["results"].forEach([&](const JsonReader &result) {
    if (result.isNull())
      node.results.push_back(std::nullopt);
    else
      node.results.push_back(readName(result));
  });
  node.module = json["module"].asString();
  node.backward = json["phase"].asOneOf({"forward", "backward"}) == "backward";
  if (JsonReader checkpoint = json["checkpoint"]; !checkpoint.isNull())
    node.checkpoint = checkpoint.asInt();
  node.keep = json["keep"].asBool();
  node.source = json["source"].asString();
  return node;
}

static ProgramInfo readProgram(const JsonReader &json) {
  ProgramInfo program;
  json["values"].forEachField(
      [&](const std::string &name, const JsonReader &value) {
        if (!isName(name))
          value.fail("under a name");
        program.values[name] = readTensor(value);
      });
  std::set<std::string> defined;
  auto define = [&](const std::string &name, const JsonReader &at) {
    if (!program.values.count(name))
      at.fail("described in `values`");
    if (!defined.insert(name).second)
      at.fail("a name of its own: " + name + " is taken");
  };
  json["arguments"].forEach([&](const JsonReader &argument) {
    ArgumentInfo info;
    info.name = readName(argument["name"]);
    define(info.name, argument["name"]);
    info.role = argument["role"].asOneOf(
        {"parameter", "buffer", "constant", "input", "cotangent"});
    if (info.role != "cotangent")
      info.fqn = readFqn(argument["fqn"]);
    program.arguments.push_back(info);
  });
  json["nodes"].forEach([&](const JsonReader &node) {
    program.nodes.push_back(readNode(node));
    for (const auto &result : program.nodes.back().results)
      if (result)
        define(*result, node["results"]);
  });
  json["results"].forEach([&](const JsonReader &result) {
    ResultInfo info;
    info.name = readName(result["name"]);
    if (!defined.count(info.name))
      result["name"].fail("a value of the program");
    info.role =
        result["role"].asOneOf({"loss", "gradient", "buffer_update", "output"});
    if (info.role != "loss")
      info.fqn = readFqn(result["fqn"]);
    program.results.push_back(info);
  });
  if (program.results.empty() || program.results[0].role != "loss" ||
      std::count_if(program.results.begin(), program.results.end(),
                    [](const ResultInfo &r) { return r.role == "loss"; }) != 1)
    json["results"].fail("a list that begins with the one loss");
  return program;
}

static ModuleInfo readModule(const JsonReader &json) {
  ModuleInfo info;
  info.path = json["path"].asString();
  info.className = json["class"].asString();
  // `container` may be left out: most modules are none.
  info.container = json.has("container") && json["container"].asBool();
  info.aliases = json["aliases"].asStrings();
  return info;
}

static OptimizerInfo readOptimizer(const JsonReader &json,
                                   const std::set<std::string> &parameters) {
  OptimizerInfo optimizer;
  optimizer.rule = json["rule"].asOneOf({"sgd", "adam", "adamw"});
  optimizer.implementation =
      json["implementation"].asOneOf({"for-loop", "foreach", "fused"});
  std::set<std::string> seen;
  json["groups"].forEach([&](const JsonReader &group) {
    GroupInfo info;
    group["parameters"].forEach([&](const JsonReader &member) {
      info.parameters.push_back(member.asString());
      if (!parameters.count(info.parameters.back()))
        member.fail("one of `parameters`");
      if (!seen.insert(info.parameters.back()).second)
        member.fail("in one group only");
    });
    JsonReader values = group["hyperparameters"];
    info.lr = values["lr"].asDouble();
    info.weightDecay = values["weight_decay"].asDouble();
    info.maximize = values["maximize"].asBool();
    if (optimizer.rule == "sgd") {
      info.momentum = values["momentum"].asDouble();
      info.dampening = values["dampening"].asDouble();
      info.nesterov = values["nesterov"].asBool();
    } else {
      std::vector<double> betas;
      values["betas"].forEach(
          [&](const JsonReader &beta) { betas.push_back(beta.asDouble()); });
      if (betas.size() != 2)
        values["betas"].fail("two numbers");
      info.beta1 = betas[0];
      info.beta2 = betas[1];
      info.eps = values["eps"].asDouble();
      info.amsgrad = values["amsgrad"].asBool();
    }
    optimizer.groups.push_back(info);
  });
  return optimizer;
}

/// The sizes of the mesh, and names of its dimensions, or none.
static void readMesh(const JsonReader &json, ArchiveMetadata &metadata) {
  if (json.isNull())
    return;
  json["device"].asOneOf({"cpu", "cuda"});
  json["shape"].forEach([&](const JsonReader &size) {
    metadata.mesh.push_back(size.asInt());
    if (size.asInt() < 1 || size.asInt() > 65536)
      size.fail("a number of ranks from 1 to 65536");
  });
  if (metadata.mesh.empty() || metadata.mesh.size() > 2)
    json["shape"].fail("of one or two dimensions");
  if (json["names"].isNull())
    return;
  metadata.meshNames = json["names"].asStrings();
  if (metadata.meshNames.size() != metadata.mesh.size())
    json["names"].fail("null or a name for each dimension");
}

static std::string readFloat(const JsonReader &json) {
  return json.asOneOf({"float16", "bfloat16", "float32", "float64"});
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
  if (!reshard.isNull())
    unit.reshard = reshard.asBool();
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
  return unit;
}

/// A positive number, or "inf".
static double readBound(const JsonReader &json, double least) {
  if (json.isString() && json.asString() == "inf")
    return std::numeric_limits<double>::infinity();
  double bound = json.asDouble();
  if (!(bound > 0 && bound >= least))
    json.fail("\"inf\" or a number above 0, a norm's type at least 1");
  return bound;
}

static ClippingInfo readClipping(const JsonReader &json) {
  ClippingInfo clipping;
  JsonReader norm = json["clip_grad_norm"], value = json["clip_grad_value"];
  if (!norm.isNull()) {
    clipping.maxNorm = readBound(norm["max_norm"], 0);
    clipping.normType = readBound(norm["norm_type"], 1);
  }
  if (!value.isNull())
    clipping.value = readBound(value, 0);
  if (clipping.maxNorm && clipping.value)
    value.fail("null where clip_grad_norm is given");
  return clipping;
}

static ScalerInfo readScaler(const JsonReader &json) {
  ScalerInfo scaler;
  scaler.growthFactor = json["growth_factor"].asDouble();
  scaler.backoffFactor = json["backoff_factor"].asDouble();
  scaler.growthInterval = json["growth_interval"].asInt();
  if (!(scaler.growthFactor > 1))
    json["growth_factor"].fail("above 1");
  if (!(scaler.backoffFactor > 0 && scaler.backoffFactor < 1))
    json["backoff_factor"].fail("between 0 and 1");
  if (scaler.growthInterval < 1)
    json["growth_interval"].fail("1 or more");
  return scaler;
}

static void readRates(const JsonReader &json, ArchiveMetadata &metadata) {
  if (json.isNull())
    return;
  json.forEach([&](const JsonReader &row) {
    metadata.learningRates.emplace_back();
    row.forEach([&](const JsonReader &rate) {
      metadata.learningRates.back().push_back(rate.asDouble());
    });
    if (metadata.learningRates.back().size() !=
        metadata.optimizer.groups.size())
      row.fail("a rate for each parameter group");
  });
  if (metadata.learningRates.empty())
    json.fail("null or a table of at least one row");
}

static void readLength(const JsonReader &json, ArchiveMetadata &metadata) {
  if (json.isNull())
    return;
  bool epochs = json.has("epochs");
  JsonReader count = json[epochs ? "epochs" : "steps"];
  (epochs ? metadata.epochs : metadata.steps) = count.asInt();
  if (count.asInt() < 0)
    count.fail("zero or more");
}

/// Every argument and result names a state or an input that there is, with
/// its type.
static void checkReferences(const std::string &name, ProgramInfo &program,
                            const ArchiveMetadata &metadata) {
  std::map<std::string, std::map<std::string, const TensorInfo *>> known;
  // A program computes with a parameter in the dtype of its unit.
  std::map<std::string, std::string> unitDtypes, computeDtypes;
  for (const UnitInfo &unit : metadata.units)
    if (unit.paramDtype)
      unitDtypes[unit.name] = *unit.paramDtype;
  for (const StateInfo &state : metadata.parameters)
    if (state.unit && unitDtypes.count(*state.unit))
      computeDtypes[state.fqn] = unitDtypes[*state.unit];
  auto add = [&](const char *role, const std::vector<StateInfo> &states) {
    for (const StateInfo &state : states)
      known[role][state.fqn] = &state.type;
  };
  add("parameter", metadata.parameters);
  add("buffer", metadata.buffers);
  add("constant", metadata.constants);
  for (const InputInfo &input : metadata.inputs)
    known["input"][input.name] = &input.type;
  auto check = [&](const std::string &what, const char *role,
                   const std::string &fqn, const TensorInfo &type) {
    auto it = known[role].find(fqn);
    if (it == known[role].end())
      throw ArchiveError("has a bad fsdp.json: program " + name + " has " +
                         what + " of " + fqn + ", which is not a known " +
                         role + "; export again");
    auto compute = computeDtypes.find(fqn);
    const std::string &dtype =
        role == std::string("parameter") && compute != computeDtypes.end()
            ? compute->second
            : it->second->dtype;
    if (it->second->shape != type.shape || dtype != type.dtype)
      throw ArchiveError("has a bad fsdp.json: program " + name + " has " +
                         what + " of " + fqn +
                         " with another shape or dtype; export again");
  };
  std::set<std::pair<std::string, std::string>> seen;
  for (const ArgumentInfo &argument : program.arguments) {
    if (argument.role == "cotangent")
      continue;
    check("an argument", argument.role.c_str(), argument.fqn,
          program.values.at(argument.name));
    if (!seen.insert({argument.role, argument.fqn}).second)
      throw ArchiveError("has a bad fsdp.json: program " + name +
                         " has two arguments for " + argument.fqn +
                         "; export again");
  }
  for (const ResultInfo &result : program.results) {
    if (result.role == "gradient")
      check("a gradient", "parameter", result.fqn,
            program.values.at(result.name));
    if (result.role == "buffer_update")
      check("an update", "buffer", result.fqn, program.values.at(result.name));
    if (!seen.insert({result.role, result.fqn}).second)
      throw ArchiveError("has a bad fsdp.json: program " + name +
                         " has two results for " + result.fqn +
                         "; export again");
  }
}

static ArchiveMetadata readFields(const JsonReader &json) {
  ArchiveMetadata metadata;
  metadata.torchVersion = json["torch_version"].asString();
  if (metadata.torchVersion != TORCH_VERSION_TEXT)
    throw ArchiveError("was written with PyTorch " + metadata.torchVersion +
                       ", this program is built with " TORCH_VERSION_TEXT
                       "; export again with that version");
  metadata.source = json["source"].asString();
  json["modules"].forEach([&](const JsonReader &module) {
    metadata.modules.push_back(readModule(module));
  });
  readMesh(json["mesh"], metadata);
  std::set<std::string> paths, units;
  for (const ModuleInfo &module : metadata.modules)
    paths.insert(module.path);
  json["units"].forEach([&](const JsonReader &unit) {
    metadata.units.push_back(readUnit(unit, paths));
    if (!units.insert(metadata.units.back().name).second)
      unit["name"].fail("a name of its own");
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
  metadata.optimizer = readOptimizer(json["optimizer"], parameters);
  metadata.clipping = readClipping(json);
  if (!json["scaler"].isNull())
    metadata.scaler = readScaler(json["scaler"]);
  readRates(json["learning_rates"], metadata);
  readLength(json["length"], metadata);
  metadata.accumulate = json["accumulate"].asInt();
  if (metadata.accumulate < 1)
    json["accumulate"].fail("a number of micro-batches of at least 1");
  metadata.seed = json["seed"].asInt();
  json["rank_metrics"].forEach(
      [](const JsonReader &metric) { metric.fail("known: it must be empty"); });

  JsonReader programs = json["programs"];
  if (!programs.has("step"))
    throw ArchiveError("has no program `step`; export a training step");
  programs.forEachField([&](const std::string &name, const JsonReader &value) {
    if (name != "step" && name != "eval")
      value.fail("a program's name: step or eval");
    ProgramInfo program = readProgram(value);
    checkReferences(name, program, metadata);
    metadata.programs[name] = std::move(program);
  });
  return metadata;
}

ArchiveMetadata fsdp::readMetadata(const TorchArchive &archive) {
  const std::vector<std::string> &names = archive.getRecordNames();
  if (std::find(names.begin(), names.end(), kMetadataRecord) == names.end())
    throw ArchiveError("has no fsdp.json: it is a TorchScript archive that "
                       "`python -m fsdp_mlir.export` did not write");
  const std::string &text = archive.getRecord(kMetadataRecord);
  try {
    nlohmann::json parsed = nlohmann::json::parse(text);
    JsonReader json(parsed);
    if (json["format"].asString() != "fsdp-mlir")
      json["format"].fail("\"fsdp-mlir\"");
    if (json["format_version"].asInt() != 3)
      throw ArchiveError(
          "has format version " +
          std::to_string(json["format_version"].asInt()) +
          ", this program reads 3; export again with this version");
    std::map<std::string, std::string> digests;
    json["sha256"]["records"].forEachField(
        [&](const std::string &name, const JsonReader &digest) {
          digests[name] = digest.asString();
        });
    checkDigests(archive, digests, json["sha256"]["metadata"].asString());
    return readFields(json);
  } catch (const nlohmann::json::exception &error) {
    throw ArchiveError(std::string("has an fsdp.json that is not JSON (") +
                       error.what() + "); export again");
  }
}
