// Reads the optimizer of fsdp.json.

#include "ArchiveOptimizer.h"

#include "ArchivePrograms.h"

#include "plan/StateNames.h"

#include <algorithm>

using namespace fsdp;

static GroupInfo::Value readHyperparameter(const JsonReader &json) {
  if (json.isBool())
    return json.asBool();
  if (json.isString())
    return json.asString();
  if (!json.isArray())
    return json.asDouble();
  std::vector<double> numbers;
  json.forEach(
      [&](const JsonReader &number) { numbers.push_back(number.asDouble()); });
  return numbers;
}

static GroupInfo readGroup(const JsonReader &json,
                           const std::set<std::string> &parameters,
                           std::set<std::string> &seen) {
  GroupInfo group;
  json["parameters"].forEach([&](const JsonReader &member) {
    group.parameters.push_back(member.asString());
    if (!parameters.count(group.parameters.back()))
      member.fail("one of `parameters`");
    if (!seen.insert(group.parameters.back()).second)
      member.fail("in one group only");
  });
  group.optimizer = readFqn(json["optimizer"]);
  group.implementation = json["implementation"].asOneOf<ImplementationInfo>(
      {{"for-loop", ImplementationInfo::ForLoop},
       {"foreach", ImplementationInfo::Foreach},
       {"fused", ImplementationInfo::Fused}});
  JsonReader values = json["hyperparameters"];
  group.lr = values["lr"].asDouble();
  values.forEachField([&](const std::string &name, const JsonReader &value) {
    if (name != "lr")
      group.hyperparameters[name] = readHyperparameter(value);
  });
  return group;
}

static NumberInfo readNumber(const JsonReader &json,
                             const std::set<std::string> &known) {
  struct Known {
    NumberOp op;
    size_t operands;
  };
  static const std::map<std::string, Known> ops = {
      {"hyperparameter", {NumberOp::Hyperparameter, 0}},
      {"step_count", {NumberOp::StepCount, 0}},
      {"former", {NumberOp::Former, 1}},
      {"add", {NumberOp::Add, 2}},
      {"subtract", {NumberOp::Subtract, 2}},
      {"multiply", {NumberOp::Multiply, 2}},
      {"divide", {NumberOp::Divide, 2}},
      {"power", {NumberOp::Power, 2}},
      {"negate", {NumberOp::Negate, 1}},
      {"sqrt", {NumberOp::SquareRoot, 1}},
      {"exp", {NumberOp::Exponential, 1}},
      {"log", {NumberOp::Logarithm, 1}},
      {"cos", {NumberOp::Cosine, 1}},
      {"round", {NumberOp::Round, 1}},
      {"select_equal", {NumberOp::SelectEqual, 4}},
      {"select_less", {NumberOp::SelectLess, 4}},
      {"select_less_equal", {NumberOp::SelectLessEqual, 4}}};
  NumberInfo number;
  number.name = readName(json["name"]);
  auto found = ops.find(json["op"].asString());
  if (found == ops.end())
    json["op"].fail("an operation on numbers of the step");
  const auto &[name, op] = *found;
  number.op = op.op;
  if (number.op == NumberOp::Hyperparameter)
    number.hyperparameter = json["hyperparameter"].asString();
  if (number.op == NumberOp::Former)
    number.next = json["next"].asString();
  if (op.operands == 0)
    return number;
  json["operands"].forEach([&](const JsonReader &operand) {
    if (!operand.isString())
      number.operands.push_back(operand.asDouble());
    else if (known.count(operand.asString()))
      number.operands.push_back(operand.asString());
    else
      operand.fail("a number, or the name of an earlier one");
  });
  if (number.operands.size() != op.operands)
    json["operands"].fail("as many as " + name + " takes");
  return number;
}

static void readBody(const JsonReader &json, RuleInfo &rule) {
  ProgramInfo &program = rule.program;
  json["values"].forEachField(
      [&](const std::string &name, const JsonReader &value) {
        TensorInfo &info = program.values[name];
        if (!value["shape"].isNull()) {
          info = readTensor(value);
          return;
        }
        info.dtype = readDtype(value["dtype"]);
        info.anyShape = true;
      });
  DefinedValues defined(program);
  std::set<std::string> numbers;
  json["numbers"].forEach([&](const JsonReader &number) {
    rule.numbers.push_back(readNumber(number, numbers));
    if (!numbers.insert(rule.numbers.back().name).second)
      number["name"].fail("a name of its own");
  });
  size_t read = 0;
  json["numbers"].forEach([&](const JsonReader &json) {
    const NumberInfo &number = rule.numbers[read++];
    if (number.op == NumberOp::Former && !numbers.count(number.next))
      json["next"].fail("the name of a number");
  });
  json["arguments"].forEach([&](const JsonReader &argument) {
    ArgumentInfo info;
    info.name = readName(argument["name"]);
    info.role = argument["role"].asOneOf<ArgumentRole>(
        {{"parameter", ArgumentRole::Parameter},
         {"gradient", ArgumentRole::Gradient},
         {"state", ArgumentRole::State},
         {"number", ArgumentRole::Number}});
    if (info.role != ArgumentRole::Number)
      defined.define(info.name, argument["name"]);
    else if (!numbers.count(info.name))
      argument["name"].fail("the name of a number");
    program.arguments.push_back(info);
  });
  json["nodes"].forEach([&](const JsonReader &node) {
    NodeInfo info;
    info.op = node["op"].asString();
    info.overload = node["overload"].asString();
    info.source = node["source"].asString();
    node["results"].forEach([&](const JsonReader &result) {
      info.results.push_back(readName(result));
      defined.define(*info.results.back(), result);
    });
    program.nodes.push_back(info);
  });
  json["results"].forEach([&](const JsonReader &result) {
    program.results.push_back({readName(result), ResultRole::Output, ""});
    if (!defined.has(program.results.back().name))
      result.fail("a value of the rule");
  });
}

/// The arguments are the parameter, the gradient, the states, then numbers; the
/// results are of the types of what they replace.
static void checkBody(const JsonReader &json, const RuleInfo &rule) {
  const ProgramInfo &program = rule.program;
  std::vector<ArgumentRole> roles = {ArgumentRole::Parameter,
                                     ArgumentRole::Gradient};
  roles.resize(2 + rule.states.size(), ArgumentRole::State);
  if (program.arguments.size() < roles.size())
    json["arguments"].fail("a parameter, a gradient and each state");
  for (size_t i = 0; i < program.arguments.size(); ++i)
    if (program.arguments[i].role !=
        (i < roles.size() ? roles[i] : ArgumentRole::Number))
      json["arguments"].fail("a parameter, a gradient, states and numbers");
  auto type = [&](size_t argument) {
    return program.values.at(program.arguments[argument].name);
  };
  if (program.results.size() != rule.states.size() + 1)
    json["results"].fail("a parameter and each state");
  for (size_t i = 0; i < program.results.size(); ++i) {
    const TensorInfo &result = program.values.at(program.results[i].name);
    TensorInfo replaced = type(i == 0 ? 0 : i + 1);
    if (result.dtype != replaced.dtype ||
        result.anyShape != replaced.anyShape || result.shape != replaced.shape)
      json["results"].fail("of the types of what they replace");
  }
  for (size_t i = 0; i < rule.states.size(); ++i)
    if (type(i + 2).dtype != rule.states[i].dtype)
      json["states"].fail("of the arguments' dtypes");
}

static RuleInfo readRule(const JsonReader &json, const OptimizerInfo &optimizer,
                         std::set<std::string> &seen) {
  RuleInfo rule;
  rule.name = readFqn(json["name"]);
  rule.method = readName(json["method"]);
  if (rule.method.compare(0, 5, "rule_") != 0)
    json["method"].fail("a method of rules: rule_0");
  int64_t group = json["group"].asInt();
  if (group < 0 || group >= int64_t(optimizer.groups.size()))
    json["group"].fail("the number of a group");
  rule.group = group;
  const auto &members = optimizer.groups[group].parameters;
  json["parameters"].forEach([&](const JsonReader &member) {
    rule.parameters.push_back(member.asString());
    if (std::find(members.begin(), members.end(), rule.parameters.back()) ==
        members.end())
      member.fail("one of the group's parameters");
    if (!seen.insert(rule.parameters.back()).second)
      member.fail("in one rule only");
  });
  if (JsonReader missed = json["missed"]; !missed.isNull())
    rule.missed = readFqn(missed);
  rule.sets = json["sets"].asBool();
  json["states"].forEach([&](const JsonReader &state) {
    rule.states.push_back({readFqn(state["name"]), readDtype(state["dtype"]),
                           state["initial"].asDouble()});
  });
  readBody(json, rule);
  checkBody(json, rule);
  for (const NumberInfo &number : rule.numbers)
    if (number.op == NumberOp::Former && !rule.missed.empty())
      json["missed"].fail("null, as numbers follow from each step before");
  return rule;
}

void fsdp::checkMissed(const ArchiveMetadata &metadata) {
  std::set<std::string> counts;
  for (const StateInfo &buffer : metadata.buffers)
    if (buffer.type.shape.empty() && buffer.type.dtype == "float64" &&
        buffer.fqn.rfind(plan::missedStatePrefix, 0) == 0)
      counts.insert(buffer.fqn);
  for (const RuleInfo &rule : metadata.optimizer.rules)
    if (!rule.missed.empty() && !counts.count(rule.missed))
      throw ArchiveError(E::ArchiveContents,
                         "has a bad fsdp.json: the rule " + rule.name +
                             " counts in " + rule.missed +
                             ", which is no float64 buffer of one number "
                             "under such a name; export again");
}

OptimizerInfo fsdp::readOptimizer(const JsonReader &json,
                                  const std::set<std::string> &parameters) {
  OptimizerInfo optimizer;
  std::set<std::string> grouped, ruled, names;
  json["groups"].forEach([&](const JsonReader &group) {
    optimizer.groups.push_back(readGroup(group, parameters, grouped));
  });
  json["rules"].forEach([&](const JsonReader &rule) {
    optimizer.rules.push_back(readRule(rule, optimizer, ruled));
    if (!names.insert(optimizer.rules.back().name).second)
      rule["name"].fail("a name of its own");
  });
  return optimizer;
}
