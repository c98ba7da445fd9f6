// From an archive to the IR.

#include "fsdp/Target/TorchScriptImport.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

#include "ArchiveTurns.h"
#include "AtenCallImport.h"
#include "ProgramImport.h"
#include "RecipeImport.h"
#include "RuleImport.h"
#include "TrainingImport.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/Registration.h"
#include "plan/DTypes.h"
#include "plan/ProgramNames.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"
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
  StateOp addState(const StateInfo &info, Role role, const std::string &symbol);
  StateOp addModelState(const StateInfo &info, Role role);
  void addOptimizer(const llvm::StringMap<const TorchGraph *> &graphs);
  void addOptimizerStates(const StateInfo &parameter, const RuleInfo &rule);

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

  const ArchiveMetadata &metadata;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  AtenCallImporter calls;
  llvm::StringMap<unsigned> groups; // of each parameter the optimizer holds
  llvm::StringSet<> functions; // symbols of programs and rules, also later ones
  ImportedStates states;
};
} // namespace

OwningOpRef<ModuleOp> Importer::run(const std::vector<std::string> &names,
                                    const std::vector<TorchGraph> &graphs) {
  importTraining(builder, *module, metadata);
  functions.insert(plan::accumulateProgramName);
  for (const auto &[name, program] : metadata.programs)
    functions.insert(name);
  for (const RuleInfo &rule : metadata.optimizer.rules)
    functions.insert(rule.name);
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
      importProgram(builder, calls, metadata, states, name, graph);
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

StateOp Importer::addState(const StateInfo &info, Role role,
                           const std::string &symbol) {
  OperationState state(unknown(), StateOp::getOperationName());
  StateOp::Properties &properties =
      state.getOrAddProperties<StateOp::Properties>();
  properties.sym_name = builder.getStringAttr(symbol);
  if (symbol != info.fqn)
    properties.fqn = builder.getStringAttr(info.fqn);
  states.symbols[info.fqn] = FlatSymbolRefAttr::get(properties.sym_name);
  properties.role = RoleAttr::get(builder.getContext(), role);
  properties.type =
      TypeAttr::get(getTensorType(builder.getContext(), info.type));
  properties.aliases = stringsOrNull(info.aliases);
  if (info.trainable)
    properties.trainable = builder.getUnitAttr();
  if (info.persistent)
    properties.persistent = builder.getUnitAttr();
  if (!info.init.empty())
    properties.init = getRecipe(info, builder);
  return cast<StateOp>(builder.create(state));
}

StateOp Importer::addModelState(const StateInfo &info, Role role) {
  bool isTaken = functions.contains(info.fqn);
  return addState(info, role, isTaken ? info.fqn + "/state" : info.fqn);
}

void Importer::addStates() {
  for (const StateInfo &info : metadata.parameters) {
    StateOp state = addModelState(info, Role::Parameter);
    auto group = groups.find(info.fqn);
    if (group != groups.end())
      state.setGroupAttr(builder.getI64IntegerAttr(group->second));
    states.elementTypes[info.fqn] = state.getTensorType().getElementType();
    if (info.shardDim)
      kShardDimAttr.set(state, info.shardDim);
    if (info.unit)
      state.setUnit(*info.unit);
    else if (!metadata.units.empty())
      state.setReplicated(true);
  }
  for (const StateInfo &info : metadata.buffers)
    addModelState(info, Role::Buffer);
  for (const StateInfo &info : metadata.constants)
    addModelState(info, Role::Constant);
}

void Importer::addOptimizerStates(const StateInfo &parameter,
                                  const RuleInfo &rule) {
  ParameterUpdate &update = states.updates[parameter.fqn];
  update.rule = symbol(rule.name);
  update.missed = rule.missed;
  for (auto [index, like] : llvm::enumerate(rule.states)) {
    StateInfo info;
    info.fqn = parameter.fqn + "/" + like.name;
    // Behind the parameter and its gradient.
    info.type = rule.program.values.at(rule.program.arguments[index + 2].name);
    if (info.type.anyShape)
      info.type = parameter.type;
    info.type.dtype = like.dtype;
    if (like.initial != 0 || std::signbit(like.initial))
      info.init = {InitInfo{"fill", {like.initial}, 0, std::nullopt}};
    FlatSymbolRefAttr of = states.symbols.at(parameter.fqn);
    StateOp state = addState(info, Role::Optimizer,
                             (of.getValue() + "/" + like.name).str());
    state.setParameterAttr(of);
    update.states.push_back(states.symbols.at(info.fqn));
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
  auto add = [&](const ResultInfo &result) {
    if (result.role != ResultRole::Gradient)
      return;
    const StateInfo *info = parameters.lookup(result.fqn);
    if (!info->trainable)
      throw ArchiveError(E::ArchiveContents,
                         "has a gradient of " + result.fqn +
                             ", which is not trainable; export again");
    auto group = groups.find(result.fqn);
    if (group == groups.end())
      return;
    const RuleInfo *rule = ruleOf.lookup(result.fqn);
    if (!rule)
      throw ArchiveError(E::ArchiveContents,
                         "has no rule for " + result.fqn +
                             ", which the optimizer holds; export again");
    if (!plan::isFloating(plan::findDType(info->type.dtype)->dtype))
      throw ArchiveError(E::Dtype,
                         "has the trainable parameter " + info->fqn +
                             " of dtype " + info->type.dtype +
                             ", for which there is no update; make it a "
                             "floating-point parameter");
    members[group->second].push_back(info);
    used.insert(rule);
  };
  for (const std::string &name : programsOfStep(metadata))
    llvm::for_each(metadata.programs.at(name).results, add);
  if (used.empty())
    throw ArchiveError(E::NoGradient,
                       "has no parameter to update: the loss reaches none that "
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

OwningOpRef<ModuleOp> fsdp::importTorchScript(StringRef archive,
                                              MLIRContext *context) {
  context->loadDialect<aten::AtenDialect, FSDPDialect, func::FuncDialect,
                       arith::ArithDialect, math::MathDialect>();
  std::unique_ptr<TorchArchive> file =
      openTorchArchive(std::string_view(archive.data(), archive.size()));
  ArchiveMetadata metadata = readMetadata(*file);
  // The step first, so that its random sites do not depend on `eval`.
  std::vector<std::string> names = programsOfStep(metadata);
  for (const auto &[name, program] : metadata.programs)
    if (!llvm::is_contained(names, name))
      names.push_back(name);
  for (const RuleInfo &rule : metadata.optimizer.rules)
    names.push_back(rule.method);
  return Importer(metadata, context).run(names, file->readGraphs(names));
}

void fsdp::registerTorchScriptImport() {
  static TranslateToMLIRRegistration registration(
      "import-torchscript",
      "import a training step that fsdp_mlir.export wrote",
      [](llvm::SourceMgr &sources, MLIRContext *context) {
        const llvm::MemoryBuffer *buffer =
            sources.getMemoryBuffer(sources.getMainFileID());
        try {
          return OwningOpRef<Operation *>(
              importTorchScript(buffer->getBuffer(), context));
        } catch (const std::exception &error) {
          std::string file = buffer->getBufferIdentifier().str();
          printError(Error(kindOf(error), file + " " + error.what()));
          return OwningOpRef<Operation *>();
        }
      },
      registerDialects);
}
