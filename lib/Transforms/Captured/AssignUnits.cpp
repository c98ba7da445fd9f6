// fsdp-assign-units.

#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/NearestName.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

namespace fsdp {
#define GEN_PASS_DEF_ASSIGNUNITS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// Every path of a module: its first one, and those it has besides.
SmallVector<StringRef> getPaths(ModulePathOp module) {
  SmallVector<StringRef> paths{module.getPath()};
  if (auto aliases = module.getAliases())
    for (auto alias : aliases->getAsRange<StringAttr>())
      paths.push_back(alias.getValue());
  return paths;
}

/// Every name of a parameter.
SmallVector<StringRef> getNames(StateOp state) {
  SmallVector<StringRef> names{state.getSymName()};
  if (auto aliases = state.getAliases())
    for (auto alias : aliases->getAsRange<StringAttr>())
      names.push_back(alias.getValue());
  return names;
}

/// Whether `name` lies below the module at `path`; the model is at "".
bool isBelow(StringRef name, StringRef path) {
  return path.empty() || (name.consume_front(path) && name.starts_with("."));
}

/// The paths that `name` lies below, the innermost first; the model is last.
SmallVector<StringRef> getPathsAbove(StringRef name) {
  SmallVector<StringRef> above;
  for (size_t dot = name.rfind('.'); dot != StringRef::npos;
       dot = name.rfind('.', dot))
    above.push_back(name.take_front(dot));
  above.push_back("");
  return above;
}

/// Whether `name` is that of a direct child of the module at `path`.
bool isChild(StringRef name, StringRef path) {
  if (name.empty() || !isBelow(name, path))
    return false;
  return !name.drop_front(path.empty() ? 0 : path.size() + 1).contains('.');
}

struct Model {
  SmallVector<ModulePathOp> modules;
  SmallVector<StateOp> parameters;
  llvm::StringSet<> withParameters; // paths that a parameter lies below

  explicit Model(ModuleOp module) {
    llvm::append_range(modules, module.getOps<ModulePathOp>());
    for (StateOp state : module.getOps<StateOp>())
      if (state.getRole() == Role::Parameter)
        parameters.push_back(state);
    for (StateOp parameter : parameters)
      for (StringRef name : getNames(parameter))
        for (StringRef path : getPathsAbove(name))
          withParameters.insert(path);
  }

  bool hasParameters(ModulePathOp module) const {
    return llvm::any_of(getPaths(module), [&](StringRef path) {
      return withParameters.contains(path);
    });
  }

  /// Those with parameters.
  SmallVector<ModulePathOp> getChildren(ModulePathOp parent) const {
    SmallVector<ModulePathOp> children;
    for (ModulePathOp module : modules)
      if (hasParameters(module) &&
          llvm::any_of(getPaths(module), [&](StringRef path) {
            return llvm::any_of(getPaths(parent), [&](StringRef above) {
              return isChild(path, above);
            });
          }))
        children.push_back(module);
    return children;
  }
};

/// What is repeated among the children of a container: nothing, layers, or
/// blocks, which are modules with modules in them.
enum class Repeated { Nothing, Layers, Blocks };

Repeated getRepeated(const Model &model, ModulePathOp module) {
  StringRef name = module.getClassName();
  if (!module.getContainer() && name != "ModuleList" && name != "Sequential")
    return Repeated::Nothing;
  llvm::StringMap<int> count;
  Repeated found = Repeated::Nothing;
  for (ModulePathOp child : model.getChildren(module)) {
    if (++count[child.getClassName()] == 1)
      continue;
    if (!model.getChildren(child).empty())
      return Repeated::Blocks;
    found = Repeated::Layers;
  }
  return found;
}

bool holdsBlocks(const Model &model, ModulePathOp module) {
  return getRepeated(model, module) == Repeated::Blocks ||
         llvm::any_of(model.getChildren(module), [&](ModulePathOp child) {
           return holdsBlocks(model, child);
         });
}

/// units=auto: children of outermost containers in which one class repeats.
/// Blocks come before layers: those of a list beside two embeddings.
void findRepeated(const Model &model, ModulePathOp module,
                  llvm::SetVector<ModulePathOp> &units) {
  SmallVector<ModulePathOp> children = model.getChildren(module);
  Repeated repeated = getRepeated(model, module);
  if (repeated == Repeated::Blocks ||
      (repeated == Repeated::Layers && !holdsBlocks(model, module))) {
    units.insert(children.begin(), children.end());
    return;
  }
  for (ModulePathOp child : children)
    findRepeated(model, child, units);
}

class AssignUnits : public fsdp::impl::AssignUnitsBase<AssignUnits> {
public:
  using AssignUnitsBase::AssignUnitsBase;

  void runOnModule() override {
    if (failed(assign(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult assign(ModuleOp module);
  FailureOr<llvm::SetVector<ModulePathOp>> findModules(ModuleOp module,
                                                       const Model &model);
  void cutByBytes(ArrayRef<StateOp> byUse, uint64_t bytes,
                  llvm::MapVector<StateOp, std::string> &owner);
  LogicalResult keepUnits(ModuleOp module, ArrayRef<StateOp> byUse,
                          const llvm::StringMap<UnitOp> &named,
                          llvm::MapVector<StateOp, std::string> &owner);
};

/// Parameters of modules sorted by their first reader in a step; those that
/// nothing reads come last.
static SmallVector<StateOp> sortByUse(ArrayRef<StateOp> parameters,
                                      func::FuncOp step) {
  llvm::StringMap<size_t> firstUse;
  size_t position = 0;
  for (func::FuncOp turn : getTurns(step))
    turn.walk<WalkOrder::PreOrder>([&](Operation *op) {
      ++position;
      if (aten::isPrecisionCast(op))
        return; // its readers use the parameter
      for (Value operand : op->getOperands())
        if (auto load =
                aten::lookThroughPrecisionCast(operand).getDefiningOp<LoadOp>())
          firstUse.try_emplace(load.getState(), position);
    });
  auto key = [&](StateOp state) {
    auto it = firstUse.find(state.getSymName());
    return it == firstUse.end() ? SIZE_MAX : it->second;
  };
  SmallVector<StateOp> sorted(parameters);
  llvm::stable_sort(sorted,
                    [&](StateOp a, StateOp b) { return key(a) < key(b); });
  return sorted;
}

std::string nearestAmong(StringRef unknown,
                         const llvm::SetVector<StringRef> &known) {
  std::vector<std::string> names;
  for (StringRef name : known)
    names.push_back(name.str());
  return nearestHint(unknown, names);
}

FailureOr<llvm::SetVector<ModulePathOp>>
AssignUnits::findModules(ModuleOp module, const Model &model) {
  llvm::SetVector<ModulePathOp> found;
  if (units == "auto") {
    if (!model.modules.empty())
      findRepeated(model, model.modules.front(), found);
    return found;
  }
  StringRef className = units;
  if (className.consume_front("class:")) {
    llvm::SetVector<StringRef> classes;
    for (ModulePathOp candidate : model.modules) {
      classes.insert(candidate.getClassName());
      if (candidate.getClassName() == className &&
          model.hasParameters(candidate))
        found.insert(candidate);
    }
    if (found.empty()) {
      ofKind(E::Option, module.emitError())
          << "units=" << units << ": no module with parameters is of this class"
          << nearestAmong(className, classes) << "; there are "
          << llvm::join(classes, ", ");
      return failure();
    }
    return found;
  }
  llvm::Regex regex("^(" + units + ")$");
  for (ModulePathOp candidate : model.modules)
    if (regex.match(candidate.getPath()) && model.hasParameters(candidate))
      found.insert(candidate);
  if (found.empty()) {
    llvm::SetVector<StringRef> paths;
    for (ModulePathOp candidate : model.modules)
      paths.insert(candidate.getPath());
    ofKind(E::Option, module.emitError())
        << "units=" << units << " matches the path of no module with parameters"
        << nearestAmong(units, paths)
        << "; the whole path must match, as in blocks[.][0-9]+, and a number "
           "of bytes has digits alone, as 4000000";
    return failure();
  }
  return found;
}

void AssignUnits::cutByBytes(ArrayRef<StateOp> byUse, uint64_t bytes,
                             llvm::MapVector<StateOp, std::string> &owner) {
  uint64_t filled = 0, index = 0;
  for (StateOp parameter : byUse) {
    if (filled >= bytes && filled) {
      ++index;
      filled = 0;
    }
    owner[parameter] = "unit." + std::to_string(index);
    filled += getTensorBytes(parameter.getTensorType());
  }
}

/// What a unit gathers ahead is there to be gathered.
LogicalResult checkLists(UnitOp unit, const llvm::StringMap<UnitOp> &named) {
  for (ArrayAttr names :
       {unit.getPrefetchForwardAttr(), unit.getPrefetchBackwardAttr()})
    if (names)
      for (auto name : names.getAsRange<StringAttr>())
        if (!named.contains(name.getValue()))
          return unit.emitOpError("is to prefetch ")
                 << name << ", which is no unit";
  return success();
}

/// The model names its units itself: they win over the option.
LogicalResult
AssignUnits::keepUnits(ModuleOp module, ArrayRef<StateOp> byUse,
                       const llvm::StringMap<UnitOp> &named,
                       llvm::MapVector<StateOp, std::string> &owner) {
  for (StateOp parameter : byUse) {
    if (parameter.getReplicated())
      continue;
    if (!parameter.getUnit() || !named.contains(*parameter.getUnit()))
      return parameter.emitOpError(
          "is in no unit, but the module has units; name one of them as its "
          "`unit`, or make it `replicated`");
    owner[parameter] = parameter.getUnit()->str();
  }
  for (UnitOp unit : module.getOps<UnitOp>())
    if (failed(checkLists(unit, named)))
      return failure();
  if (units != "auto")
    remarkMissed(R::KeptUnits, module.getLoc())
        << "units=" + units + " gives way to the units that the model names";
  return success();
}

/// A unit whose parameters have no elements has nothing to gather: they go to
/// the root, where others are gathered with them.
static void leaveEmptyUnits(llvm::MapVector<StateOp, std::string> &owner) {
  llvm::StringMap<int64_t> sizes;
  for (auto &[parameter, unit] : owner)
    sizes[unit] += getTensorBytes(StateOp(parameter).getTensorType());
  for (auto &[parameter, unit] : owner)
    if (sizes[unit] == 0)
      unit = "";
}

LogicalResult AssignUnits::assign(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>(plan::stepProgramName);
  if (!step || step.isDeclaration())
    return module.emitError("the module has no program `step`; import one with "
                            "`fsdp-translate --import-torchscript`");

  Model model(module);
  SmallVector<StateOp> byUse = sortByUse(model.parameters, step);
  llvm::MapVector<StateOp, std::string> owner;
  llvm::StringMap<UnitOp> named = getUnits(module);
  std::optional<uint64_t> bytes;
  if (failed(readOptions(module, [&] { bytes = readUnits(units); })))
    return failure();
  if (!named.empty()) {
    if (failed(keepUnits(module, byUse, named, owner)))
      return failure();
  } else if (bytes) {
    cutByBytes(byUse, *bytes, owner);
  } else {
    FailureOr<llvm::SetVector<ModulePathOp>> found = findModules(module, model);
    if (failed(found))
      return failure();
    llvm::StringMap<StringRef> unitAt; // by each path of a unit's module
    for (ModulePathOp candidate : *found)
      for (StringRef path : getPaths(candidate))
        unitAt[path] = candidate.getPath();
    for (StateOp parameter : byUse) {
      // The innermost unit that each name lies in; "" is the root.
      llvm::SetVector<StringRef> owners;
      for (StringRef name : getNames(parameter)) {
        SmallVector<StringRef> above = getPathsAbove(name);
        auto *inner = llvm::find_if(
            above, [&](StringRef path) { return unitAt.contains(path); });
        owners.insert(inner == above.end() ? "" : unitAt.lookup(*inner));
      }
      owner[parameter] = owners.size() == 1 ? owners.front().str() : "";
      if (owners.size() > 1)
        remarkPassed(R::TiedParameter, parameter.getLoc())
            << "it is reached from two units and goes to the root"
            << metrics::State(parameter.getSymName());
    }
  }

  if (named.empty() || named.contains(""))
    leaveEmptyUnits(owner);
  llvm::MapVector<StringRef, std::pair<int64_t, int64_t>> totals;
  OpBuilder builder(&getContext());
  for (auto &[parameter, unit] : owner) {
    StateOp(parameter).setUnit(unit);
    auto &[count, size] = totals[unit];
    ++count;
    size += getTensorBytes(StateOp(parameter).getTensorType());
  }
  if (named.empty())
    totals.try_emplace("", 0, 0);
  for (UnitOp unit : module.getOps<UnitOp>())
    totals.try_emplace(unit.getUnitName(), 0, 0);

  // Units stand in front of the states, behind the modules.
  for (auto &entry : named)
    entry.second->remove();
  builder.setInsertionPointToStart(module.getBody());
  if (!model.modules.empty())
    builder.setInsertionPointAfter(model.modules.back());
  for (auto &[unit, total] : totals) {
    UnitOp op = named.lookup(unit);
    if (op)
      builder.insert(op);
    else
      op = UnitOp::create(builder, module.getLoc(), builder.getStringAttr(unit),
                          unit.empty());
    remarkPassed(R::AssignedUnit, op.getLoc())
        << "a unit" << metrics::Unit(unit) << metrics::Parameters(total.first)
        << metrics::Bytes(total.second);
  }
  return success();
}

} // namespace
