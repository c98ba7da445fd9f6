// Which forward ops are recomputed together.

#include "fsdp/Analysis/RematRegions.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Work.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;


/// Ops in place depend on when they run; random ones repeat their numbers.
static bool isRepeatable(aten::CallOp call) {
  return isMemoryEffectFree(call) ||
         (call.isRandom() && !call.writesOperands());
}

static bool isExpensive(aten::CallOp call) {
  return !call.isView() &&
         aten::getWork(call.getCallee(), call.getInputs().getTypes(),
                       call.getOutputs().getTypes())
                 .flops > 0;
}

/// The units but the root, by the paths of their modules.
static llvm::StringMap<StringRef> getUnitPaths(ModuleOp module) {
  llvm::StringMap<StringRef> paths;
  for (UnitOp unit : module.getOps<UnitOp>()) {
    if (unit.getRoot())
      continue;
    paths[unit.getUnitName()] = unit.getUnitName();
    if (ArrayAttr modules = unit.getModulesAttr())
      for (auto path : modules.getAsRange<StringAttr>())
        paths[path.getValue()] = unit.getUnitName();
  }
  return paths;
}

/// The unit of the innermost module around `path` that is one.
static std::optional<StringRef>
findUnit(StringRef path, const llvm::StringMap<StringRef> &units) {
  while (!path.empty()) {
    auto found = units.find(path);
    if (found != units.end())
      return found->second;
    size_t dot = path.rfind('.');
    path = dot == StringRef::npos ? StringRef() : path.take_front(dot);
  }
  return std::nullopt;
}

RematRegions RematRegions::compute(func::FuncOp program, ModuleOp module) {
  RematRegions result;
  llvm::StringMap<StringRef> units = getUnitPaths(module);
  llvm::StringMap<unsigned> byName;
  unsigned position = 0;
  for (Operation &op : program.getOps()) {
    auto call = dyn_cast<aten::CallOp>(op);
    if (!call || aten::isBackward(call))
      continue;
    result.positions[call] = position++;
    if (!isRepeatable(call))
      continue;
    std::string name;
    auto checkpoint = call.getCheckpoint();
    if (checkpoint)
      name = "checkpoint " + std::to_string(*checkpoint);
    else if (std::optional<StringRef> unit =
                 findUnit(getModulePath(call.getLoc()), units))
      name = unit->str();
    else
      continue;
    auto [it, isNew] = byName.try_emplace(name, result.regions.size());
    if (isNew)
      result.regions.push_back({name, checkpoint.has_value(), {}});
    result.regions[it->second].ops.push_back(call);
    result.indices[call] = it->second;
  }
  return result;
}

std::optional<unsigned> RematRegions::getRegion(Value value) const {
  Operation *op = value.getDefiningOp();
  auto found = op ? indices.find(op) : indices.end();
  return found == indices.end() ? std::nullopt : std::optional(found->second);
}

bool RematRegions::isKept(Value value, Remat remat) const {
  std::optional<unsigned> region = getRegion(value);
  if (remat == Remat::None || !region)
    return true;
  auto call = cast<aten::CallOp>(value.getDefiningOp());
  if (call.getMustSave() ||
      (remat == Remat::Selective && isExpensive(call)))
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *reader) {
    if (aten::isBackward(reader))
      return false;
    auto found = indices.find(reader);
    if (found == indices.end() || found->second != *region)
      return true;
    // What looks into kept memory is kept memory.
    auto view = cast<aten::CallOp>(reader);
    return view.isView() && llvm::any_of(view->getResults(), [&](Value result) {
             std::optional<unsigned> operand = view.getAliasedOperand(
                 cast<OpResult>(result).getResultNumber());
             return operand && view->getOperand(*operand) == value &&
                    isKept(result, remat);
           });
  });
}

SmallVector<aten::CallOp> RematRegions::getRepeated(unsigned region,
                                                    Remat remat) const {
  ArrayRef<aten::CallOp> ops = regions[region].ops;
  llvm::DenseSet<Operation *> needed;
  SmallVector<aten::CallOp> repeated;
  // Readers stand behind what they read.
  for (aten::CallOp call : llvm::reverse(ops)) {
    bool isNeeded = llvm::any_of(call->getResults(), [&](Value result) {
      return llvm::any_of(result.getUsers(),
                          [&](Operation *reader) {
                            return aten::isBackward(reader) ||
                                   needed.contains(reader);
                          }) &&
             !isKept(result, remat);
    });
    if (isNeeded && needed.insert(call).second)
      repeated.push_back(call);
  }
  std::reverse(repeated.begin(), repeated.end());
  return repeated;
}

void RematRegions::dump(raw_ostream &os) const {
  for (const Region &region : regions)
    os << "region \"" << region.name << "\": " << region.ops.size() << " ops\n";
}
