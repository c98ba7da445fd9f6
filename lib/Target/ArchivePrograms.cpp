// Reads the programs of fsdp.json, and checks what they refer to.

#include "ArchivePrograms.h"

#include "plan/DTypes.h"

#include <algorithm>
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

std::string fsdp::readName(const JsonReader &json) {
  std::string name = json.asString();
  if (!isName(name))
    json.fail("a name");
  return name;
}

std::string fsdp::readFqn(const JsonReader &json) {
  std::string fqn = json.asString();
  if (fqn.empty())
    json.fail("a name");
  return fqn;
}

std::string fsdp::readDtype(const JsonReader &json) {
  static const std::set<std::string> dtypes = plan::dtypeNames();
  return json.asOneOf(dtypes);
}

// Sizes are bounded so that no product of them overflows later on.
TensorInfo fsdp::readTensor(const JsonReader &json) {
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

void DefinedValues::define(const std::string &name, const JsonReader &at) {
  if (!program.values.count(name))
    at.fail("described in `values`");
  if (!names.insert(name).second)
    at.fail("a name of its own: " + name + " is taken");
}

ProgramInfo fsdp::readProgram(const JsonReader &json) {
  ProgramInfo program;
  json["values"].forEachField(
      [&](const std::string &name, const JsonReader &value) {
        if (!isName(name))
          value.fail("under a name");
        program.values[name] = readTensor(value);
      });
  DefinedValues defined(program);
  json["arguments"].forEach([&](const JsonReader &argument) {
    ArgumentInfo info;
    info.name = readName(argument["name"]);
    defined.define(info.name, argument["name"]);
    info.role = argument["role"].asOneOf<ArgumentRole>(
        {{"parameter", ArgumentRole::Parameter},
         {"buffer", ArgumentRole::Buffer},
         {"constant", ArgumentRole::Constant},
         {"input", ArgumentRole::Input},
         {"cotangent", ArgumentRole::Cotangent}});
    if (info.role != ArgumentRole::Cotangent)
      info.fqn = readFqn(argument["fqn"]);
    program.arguments.push_back(info);
  });
  json["nodes"].forEach([&](const JsonReader &node) {
    program.nodes.push_back(readNode(node));
    for (const auto &result : program.nodes.back().results)
      if (result)
        defined.define(*result, node["results"]);
  });
  json["results"].forEach([&](const JsonReader &result) {
    ResultInfo info;
    info.name = readName(result["name"]);
    if (!defined.has(info.name))
      result["name"].fail("a value of the program");
    info.role = result["role"].asOneOf<ResultRole>(
        {{"loss", ResultRole::Loss},
         {"gradient", ResultRole::Gradient},
         {"has_gradient", ResultRole::HasGradient},
         {"buffer_update", ResultRole::BufferUpdate},
         {"output", ResultRole::Output}});
    if (info.role != ResultRole::Loss)
      info.fqn = readFqn(result["fqn"]);
    program.results.push_back(info);
  });
  auto isLoss = [](const ResultInfo &r) { return r.role == ResultRole::Loss; };
  if (program.results.empty() || !isLoss(program.results[0]) ||
      std::count_if(program.results.begin(), program.results.end(), isLoss) !=
          1)
    json["results"].fail("a list that begins with the one loss");
  return program;
}

/// Whether there is a gradient is one truth value, and who counts the steps
/// without is a rule's.
static void checkHasGradient(const std::string &name, const ResultInfo &result,
                             const ProgramInfo &program,
                             const ArchiveMetadata &metadata) {
  const TensorInfo &type = program.values.at(result.name);
  const auto &rules = metadata.optimizer.rules;
  bool counts = std::any_of(rules.begin(), rules.end(), [&](const auto &rule) {
    return rule.missed == result.fqn;
  });
  if (!counts || !type.shape.empty() || type.dtype != "bool")
    throw ArchiveError(
        E::ArchiveContents,
        "has a bad fsdp.json: program " + name + " says by " + result.name +
            " whether there are gradients, which is no truth value, or names " +
            result.fqn + ", which no rule counts in; export again");
}

void fsdp::checkReferences(const std::string &name, ProgramInfo &program,
                           const ArchiveMetadata &metadata) {
  struct Known {
    const char *name; // of one, for people
    std::map<std::string, const TensorInfo *> types;
  };
  std::map<ArgumentRole, Known> known;
  // A program computes with a parameter in the dtype of its unit.
  std::map<std::string, std::string> unitDtypes, computeDtypes;
  for (const UnitInfo &unit : metadata.units)
    if (unit.paramDtype)
      unitDtypes[unit.name] = *unit.paramDtype;
  for (const StateInfo &state : metadata.parameters)
    if (state.unit && unitDtypes.count(*state.unit))
      computeDtypes[state.fqn] = unitDtypes[*state.unit];
  auto add = [&](ArgumentRole role, const char *name,
                 const std::vector<StateInfo> &states) {
    known[role].name = name;
    for (const StateInfo &state : states)
      known[role].types[state.fqn] = &state.type;
  };
  add(ArgumentRole::Parameter, "parameter", metadata.parameters);
  add(ArgumentRole::Buffer, "buffer", metadata.buffers);
  add(ArgumentRole::Constant, "constant", metadata.constants);
  known[ArgumentRole::Input].name = "input";
  for (const InputInfo &input : metadata.inputs)
    known[ArgumentRole::Input].types[input.name] = &input.type;
  auto check = [&](const std::string &what, ArgumentRole role,
                   const std::string &fqn, const TensorInfo &type) {
    const Known &some = known.at(role);
    auto it = some.types.find(fqn);
    if (it == some.types.end())
      throw ArchiveError(E::ArchiveContents,
                         "has a bad fsdp.json: program " + name + " has " +
                             what + " of " + fqn + ", which is not a known " +
                             some.name + "; export again");
    auto compute = computeDtypes.find(fqn);
    const std::string &dtype =
        role == ArgumentRole::Parameter && compute != computeDtypes.end()
            ? compute->second
            : it->second->dtype;
    // Of inputs the batch's shape is what variants differ in.
    bool isOther = role == ArgumentRole::Input && !program.variantOf.empty();
    if ((it->second->shape != type.shape && !isOther) || dtype != type.dtype)
      throw ArchiveError(E::ArchiveContents,
                         "has a bad fsdp.json: program " + name + " has " +
                             what + " of " + fqn +
                             " with another shape or dtype; export again");
  };
  std::set<std::pair<ArgumentRole, std::string>> arguments;
  for (const ArgumentInfo &argument : program.arguments) {
    if (argument.role == ArgumentRole::Cotangent)
      continue;
    check("an argument", argument.role, argument.fqn,
          program.values.at(argument.name));
    if (!arguments.insert({argument.role, argument.fqn}).second)
      throw ArchiveError(E::ArchiveContents,
                         "has a bad fsdp.json: program " + name +
                             " has two arguments for " + argument.fqn +
                             "; export again");
  }
  std::set<std::pair<ResultRole, std::string>> results;
  for (const ResultInfo &result : program.results) {
    if (result.role == ResultRole::Gradient)
      check("a gradient", ArgumentRole::Parameter, result.fqn,
            program.values.at(result.name));
    if (result.role == ResultRole::BufferUpdate)
      check("an update", ArgumentRole::Buffer, result.fqn,
            program.values.at(result.name));
    if (result.role == ResultRole::HasGradient)
      checkHasGradient(name, result, program, metadata);
    if (!results.insert({result.role, result.fqn}).second)
      throw ArchiveError(E::ArchiveContents, "has a bad fsdp.json: program " +
                                                 name +
                                                 " has two results for " +
                                                 result.fqn + "; export again");
  }
}

static std::set<std::string> gradientsOf(const ProgramInfo &program) {
  std::set<std::string> gradients;
  for (const ResultInfo &result : program.results)
    if (result.role == ResultRole::Gradient)
      gradients.insert(result.fqn);
  return gradients;
}

void fsdp::checkVariants(const ArchiveMetadata &metadata) {
  for (const auto &[name, program] : metadata.programs) {
    if (program.variantOf.empty())
      continue;
    auto fail = [&, &name = name](const std::string &what) {
      throw ArchiveError(E::ArchiveContents, "has a bad fsdp.json: program " +
                                                 name + " " + what +
                                                 "; export again");
    };
    auto first = metadata.programs.find(program.variantOf);
    if (first == metadata.programs.end() || !first->second.variantOf.empty())
      fail("is a variant of " + program.variantOf +
           ", which is not there or one itself");
    else if (gradientsOf(first->second) != gradientsOf(program))
      fail("has gradients of other parameters than " + program.variantOf);
    if (metadata.accumulate > 1)
      fail("is a variant, and a step has several micro-batches");
  }
}
