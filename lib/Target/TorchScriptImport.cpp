// From an archive to the IR.

#include "fsdp/Target/TorchScriptImport.h"

#include "AtenCallImport.h"
#include "RecipeImport.h"
#include "RuleImport.h"
#include "TrainingImport.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/Registration.h"
#include "plan/DTypes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

namespace {
/// Builds one module from an archive. Errors are ArchiveError.
class Importer {
public:
  Importer(const ArchiveMetadata &metadata, MLIRContext *context)
      : metadata(metadata), builder(context),
        module(ModuleOp::create(UnknownLoc::get(context))), calls(builder) {
    builder.setInsertionPointToEnd(module->getBody());
  }

  /// `names` are those of programs and of rules' methods.
  OwningOpRef<ModuleOp> run(const std::vector<std::string> &names,
                            const std::vector<TorchGraph> &graphs);

private:
  void addModules();
  void addUnits();
  void addStates();
  StateOp addState(const StateInfo &info, Role role);
  void addOptimizer(const llvm::StringMap<const TorchGraph *> &graphs);
  void addOptimizerStates(const StateInfo &parameter, const RuleInfo &rule);
  void addProgram(const std::string &name, const TorchGraph &graph);
  void addArguments(func::FuncOp function, const ProgramInfo &program);
  Value addLoad(const ArgumentInfo &argument, const TensorInfo &info);
  void addNodes(const ProgramInfo &program, const TorchGraph &graph);
  void addResults(func::FuncOp function, const ProgramInfo &program);

  Location unknown() { return builder.getUnknownLoc(); }
  FlatSymbolRefAttr symbol(const Twine &name) {
    return FlatSymbolRefAttr::get(builder.getStringAttr(name));
  }
  ArrayAttr stringsOrNull(const std::vector<std::string> &names) {
    if (names.empty())
      return {};
    return builder.getStrArrayAttr(
        SmallVector<StringRef>(names.begin(), names.end()));
  }
  RankedTensorType typeOf(const TensorInfo &info) {
    return getTensorType(builder.getContext(), info);
  }

  /// What an update of a parameter takes.
  struct Update {
    FlatSymbolRefAttr rule;
    SmallVector<Attribute> states;
  };

  const ArchiveMetadata &metadata;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  AtenCallImporter calls;
  llvm::StringMap<unsigned> groups;     // of each parameter the optimizer holds
  llvm::StringMap<Update> updates;      // of each parameter with a gradient
  llvm::StringMap<Type> parameterTypes; // of elements
  llvm::StringMap<Value> values;        // of the program being built
};
} // namespace

OwningOpRef<ModuleOp> Importer::run(const std::vector<std::string> &names,
                                    const std::vector<TorchGraph> &graphs) {
  importTraining(builder, *module, metadata);
  for (auto [index, group] : llvm::enumerate(metadata.optimizer.groups))
    for (const std::string &parameter : group.parameters)
      groups[parameter] = index;
  addModules();
  addUnits();
  addStates();
  llvm::StringMap<const TorchGraph *> methods;
  for (auto [name, graph] : llvm::zip(names, graphs))
    methods[name] = &graph;
  addOptimizer(methods);
  for (auto [name, graph] : llvm::zip(names, graphs))
    if (metadata.programs.count(name))
      addProgram(name, graph);
  return std::move(module);
}

void Importer::addModules() {
  for (const ModuleInfo &info : metadata.modules)
    ModulePathOp::create(builder, unknown(), info.path, info.className,
                         info.container, stringsOrNull(info.aliases));
}

void Importer::addUnits() {
  for (const UnitInfo &info : metadata.units) {
    auto unit = UnitOp::create(builder, unknown(),
                               builder.getStringAttr(info.name), info.root);
    unit.setReshard(info.reshard);
    unit.setReshardRanks(info.reshardRanks);
    if (info.reduceDtype)
      unit.setReduceDtypeAttr(TypeAttr::get(
          getElementType(builder.getContext(), *info.reduceDtype)));
    if (info.modules.size() > 1)
      unit.setModulesAttr(stringsOrNull(info.modules));
    unit.setOffload(info.offload.has_value());
    if (info.offload && !info.offload->pinMemory)
      unit.setPinMemory(false);
    if (info.gradientDivisor)
      unit.setGradientDivisorAttr(
          builder.getF64FloatAttr(*info.gradientDivisor));
    unit.setPrefetchForwardAttr(stringsOrNull(info.prefetchForward));
    unit.setPrefetchBackwardAttr(stringsOrNull(info.prefetchBackward));
  }
}

StateOp Importer::addState(const StateInfo &info, Role role) {
  OperationState state(unknown(), StateOp::getOperationName());
  StateOp::Properties &properties =
      state.getOrAddProperties<StateOp::Properties>();
  properties.sym_name = builder.getStringAttr(info.fqn);
  properties.role = RoleAttr::get(builder.getContext(), role);
  properties.type = TypeAttr::get(typeOf(info.type));
  properties.aliases = stringsOrNull(info.aliases);
  if (info.trainable)
    properties.trainable = builder.getUnitAttr();
  if (info.persistent)
    properties.persistent = builder.getUnitAttr();
  if (!info.init.empty())
    properties.init = getRecipe(info, builder);
  return cast<StateOp>(builder.create(state));
}

void Importer::addStates() {
  for (const StateInfo &info : metadata.parameters) {
    StateOp state = addState(info, Role::Parameter);
    auto group = groups.find(info.fqn);
    if (group != groups.end())
      state.setGroupAttr(builder.getI64IntegerAttr(group->second));
    parameterTypes[info.fqn] = state.getTensorType().getElementType();
    if (info.shardDim)
      state->setAttr("fsdp.shard_dim",
                     builder.getI64IntegerAttr(info.shardDim));
    if (info.unit)
      state.setUnit(*info.unit);
    else if (!metadata.units.empty())
      state.setReplicated(true);
  }
  for (const StateInfo &info : metadata.buffers)
    addState(info, Role::Buffer);
  for (const StateInfo &info : metadata.constants)
    addState(info, Role::Constant);
}

void Importer::addOptimizerStates(const StateInfo &parameter,
                                  const RuleInfo &rule) {
  Update &update = updates[parameter.fqn];
  update.rule = symbol(rule.name);
  for (const RuleInfo::State &like : rule.states) {
    StateInfo info;
    info.fqn = parameter.fqn + "/" + like.name;
    info.type = parameter.type;
    info.type.dtype = like.dtype;
    if (like.initial != 0 || std::signbit(like.initial))
      info.init = {InitInfo{"fill", {like.initial}, 0, std::nullopt}};
    StateOp state = addState(info, Role::Optimizer);
    state.setParameterAttr(symbol(parameter.fqn));
    update.states.push_back(symbol(info.fqn));
  }
}

/// Optimizer state and rules of the parameters with a gradient: the others
/// get no update.
void Importer::addOptimizer(const llvm::StringMap<const TorchGraph *> &graphs) {
  llvm::StringMap<const StateInfo *> parameters;
  for (const StateInfo &info : metadata.parameters)
    parameters[info.fqn] = &info;
  llvm::StringMap<const RuleInfo *> ruleOf;
  for (const RuleInfo &rule : metadata.optimizer.rules)
    for (const std::string &parameter : rule.parameters)
      ruleOf[parameter] = &rule;

  std::vector<std::vector<const StateInfo *>> members(
      metadata.optimizer.groups.size());
  llvm::SmallPtrSet<const RuleInfo *, 8> used;
  for (const ResultInfo &result : metadata.programs.at("step").results) {
    if (result.role != "gradient")
      continue;
    const StateInfo *info = parameters.lookup(result.fqn);
    if (!info->trainable)
      throw ArchiveError("has a gradient of " + result.fqn +
                         ", which is not trainable; export again");
    auto group = groups.find(result.fqn);
    if (group == groups.end())
      continue;
    const RuleInfo *rule = ruleOf.lookup(result.fqn);
    if (!rule)
      throw ArchiveError("has no rule for " + result.fqn +
                         ", which the optimizer holds; export again");
    if (!plan::isFloating(plan::findDType(info->type.dtype)->dtype))
      throw ArchiveError("has the trainable parameter " + info->fqn +
                         " of dtype " + info->type.dtype +
                         ", for which there is no update; make it a "
                         "floating-point parameter");
    members[group->second].push_back(info);
    used.insert(rule);
  }
  if (used.empty())
    throw ArchiveError("has no parameter to update: the loss reaches none that "
                       "the optimizer holds; check requires_grad and the "
                       "optimizer's parameters");

  // States first, so that a printed module begins with all of them.
  for (const auto &group : members)
    for (const StateInfo *member : group)
      addOptimizerStates(*member, *ruleOf.lookup(member->fqn));
  for (const RuleInfo &rule : metadata.optimizer.rules)
    if (used.count(&rule))
      importRule(builder, calls, metadata.optimizer, rule,
                 *graphs.lookup(rule.method));
}

void Importer::addProgram(const std::string &name, const TorchGraph &graph) {
  const ProgramInfo &program = metadata.programs.at(name);
  llvm::StringMap<const InputInfo *> inputs;
  for (const InputInfo &input : metadata.inputs)
    inputs[input.name] = &input;

  SmallVector<Type> operands, results;
  SmallVector<DictionaryAttr> operandAttrs, resultAttrs;
  for (const ArgumentInfo &argument : program.arguments) {
    if (argument.role != "input")
      continue;
    operands.push_back(typeOf(program.values.at(argument.name)));
    NamedAttrList attributes;
    attributes.set("fsdp.input", builder.getStringAttr(argument.fqn));
    if (inputs.lookup(argument.fqn)->repeat)
      attributes.set("fsdp.repeat", builder.getUnitAttr());
    operandAttrs.push_back(attributes.getDictionary(builder.getContext()));
  }
  for (const ResultInfo &result : program.results) {
    if (result.role != "loss" && result.role != "output")
      continue;
    results.push_back(typeOf(program.values.at(result.name)));
    StringRef output = result.role == "loss" ? "loss" : StringRef(result.fqn);
    resultAttrs.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr("fsdp.output", builder.getStringAttr(output))));
  }
  auto function =
      func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                           name, builder.getFunctionType(operands, results));
  function.setAllArgAttrs(operandAttrs);
  function.setAllResultAttrs(resultAttrs);

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(function.addEntryBlock());
  values.clear();
  if (graph.arguments.size() != program.arguments.size() ||
      graph.results.size() != program.results.size())
    throw ArchiveError("has a method `" + name +
                       "` of other arguments or results than fsdp.json "
                       "describes; export again");
  for (auto [argument, info] : llvm::zip(graph.arguments, program.arguments))
    if (argument != info.name)
      throw ArchiveError("names an argument of `" + name + "` " + argument +
                         ", fsdp.json " + info.name + "; export again");
  for (auto [result, info] : llvm::zip(graph.results, program.results))
    if (result != info.name)
      throw ArchiveError("returns " + result + " from `" + name +
                         "` where fsdp.json says " + info.name +
                         "; export again");
  addArguments(function, program);
  addNodes(program, graph);
  addResults(function, program);
}

/// A parameter is cast to the dtype that the program computes with it in.
Value Importer::addLoad(const ArgumentInfo &argument, const TensorInfo &info) {
  Location loc = NameLoc::get(builder.getStringAttr(argument.fqn));
  RankedTensorType type = typeOf(info);
  Type own = argument.role == "parameter" ? parameterTypes.lookup(argument.fqn)
                                          : type.getElementType();
  Value value =
      LoadOp::create(builder, loc, type.clone(own), symbol(argument.fqn));
  if (own == type.getElementType())
    return value;
  return aten::createPrecisionCast(builder, loc, aten::Phase::Forward, value,
                                   type.getElementType());
}

void Importer::addArguments(func::FuncOp function, const ProgramInfo &program) {
  unsigned next = 0;
  for (const ArgumentInfo &argument : program.arguments) {
    const TensorInfo &info = program.values.at(argument.name);
    Value &value = values[argument.name];
    if (argument.role == "input") {
      value = function.getArgument(next++);
      continue;
    }
    if (argument.role != "cotangent") {
      value = addLoad(argument, info);
      continue;
    }
    auto call = aten::CallOp::create(
        builder, unknown(), aten::Phase::Forward, "full", ValueRange(),
        ArrayRef<NamedAttribute>{
            builder.getNamedAttr("size",
                                 builder.getDenseI64ArrayAttr(info.shape)),
            builder.getNamedAttr("fill_value", builder.getF64FloatAttr(1.0)),
            builder.getNamedAttr(
                "dtype", TypeAttr::get(getElementType(builder.getContext(),
                                                      info.dtype)))},
        TypeRange(typeOf(info)));
    call->setAttr("fsdp.cotangent", builder.getUnitAttr());
    value = call->getResult(0);
  }
}

void Importer::addNodes(const ProgramInfo &program, const TorchGraph &graph) {
  if (graph.nodes.size() != program.nodes.size())
    throw ArchiveError("has " + std::to_string(graph.nodes.size()) +
                       " nodes where fsdp.json describes " +
                       std::to_string(program.nodes.size()) + "; export again");
  for (auto [node, info] : llvm::zip(graph.nodes, program.nodes))
    calls.import(node, info, program, values);
}

void Importer::addResults(func::FuncOp function, const ProgramInfo &program) {
  SmallVector<Value> returned;
  SmallVector<const ResultInfo *> gradients;
  for (const ResultInfo &result : program.results) {
    Value value = values.lookup(result.name);
    if (result.role == "gradient")
      gradients.push_back(&result);
    else if (result.role == "buffer_update")
      StoreOp::create(builder, NameLoc::get(builder.getStringAttr(result.fqn)),
                      value, symbol(result.fqn));
    else
      returned.push_back(value);
  }
  for (const ResultInfo *result : gradients) {
    auto update = updates.find(result->fqn);
    if (update == updates.end())
      continue; // trainable, but the optimizer does not hold it
    Location loc = NameLoc::get(builder.getStringAttr(result->fqn));
    Value gradient = values.lookup(result->name);
    Type own = parameterTypes.lookup(result->fqn);
    if (cast<RankedTensorType>(gradient.getType()).getElementType() != own)
      gradient = aten::createPrecisionCast(builder, loc, aten::Phase::Backward,
                                           gradient, own);
    UpdateOp::create(builder, loc, update->second.rule, symbol(result->fqn),
                     gradient, builder.getArrayAttr(update->second.states));
  }
  func::ReturnOp::create(builder, unknown(), returned);
}

OwningOpRef<ModuleOp> fsdp::importTorchScript(StringRef archive,
                                              MLIRContext *context,
                                              std::string &error) {
  context->loadDialect<aten::AtenDialect, FSDPDialect, func::FuncDialect,
                       arith::ArithDialect, math::MathDialect>();
  try {
    TorchArchive file(std::string_view(archive.data(), archive.size()));
    ArchiveMetadata metadata = readMetadata(file);
    // `step` first, so that its random sites do not depend on `eval`.
    std::vector<std::string> names = {"step"};
    for (const auto &[name, program] : metadata.programs)
      if (name != "step")
        names.push_back(name);
    for (const RuleInfo &rule : metadata.optimizer.rules)
      names.push_back(rule.method);
    return Importer(metadata, context).run(names, file.readGraphs(names));
  } catch (const std::exception &caught) {
    error = caught.what();
    return {};
  }
}

void fsdp::registerTorchScriptImport() {
  static TranslateToMLIRRegistration registration(
      "import-torchscript",
      "import a training step that fsdp_mlir.export wrote",
      [](llvm::SourceMgr &sources, MLIRContext *context) {
        const llvm::MemoryBuffer *buffer =
            sources.getMemoryBuffer(sources.getMainFileID());
        std::string error;
        OwningOpRef<Operation *> module =
            importTorchScript(buffer->getBuffer(), context, error);
        if (!module)
          llvm::errs() << "error: " << buffer->getBufferIdentifier() << " "
                       << error << "\n";
        return module;
      },
      registerDialects);
}
