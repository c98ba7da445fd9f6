// Verifiers and effects of the captured phase.

#include "StateAccess.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

using namespace mlir;
using namespace fsdp;

StateOp fsdp::lookupState(Operation *op, SymbolTableCollection &tables,
                          FlatSymbolRefAttr name) {
  auto state = tables.lookupNearestSymbolFrom<StateOp>(op, name);
  if (!state)
    op->emitOpError() << "names the state " << name
                      << ", which the module does not have; add "
                      << "`fsdp.state " << name << "`";
  return state;
}

FunctionOpInterface fsdp::lookupRule(Operation *op,
                                     SymbolTableCollection &tables,
                                     FlatSymbolRefAttr name) {
  auto rule = tables.lookupNearestSymbolFrom<FunctionOpInterface>(op, name);
  if (rule && isRule(rule) && !rule.isExternal())
    return rule;
  op->emitOpError() << "names the rule " << name
                    << ", which is not a function marked `fsdp.rule`"
                    << (rule && rule.isExternal() ? " with a body" : "");
  return {};
}

LogicalResult fsdp::verifyStates(StateAccessOpInterface op,
                                 SymbolTableCollection &tables) {
  for (const auto &names : {op.getReadStates(), op.getWrittenStates()})
    for (FlatSymbolRefAttr name : names)
      if (!lookupState(op, tables, name))
        return failure();
  return success();
}

/// Shape and element type agree; strides (the encoding) may differ.
static bool sameShapeAndElements(Type lhs, Type rhs) {
  auto a = cast<RankedTensorType>(lhs), b = cast<RankedTensorType>(rhs);
  return a.getShape() == b.getShape() &&
         a.getElementType() == b.getElementType();
}

// sum_over_ranks

LogicalResult SumOverRanksOp::verify() {
  if (cast<RankedTensorType>(getInput().getType()).getEncoding())
    return emitOpError("adds up a tensor that is not row-major; clone it "
                       "first");
  return success();
}

// state

LogicalResult StateOp::verify() {
  if (!getTensorType().hasStaticShape())
    return emitOpError("has a dynamic shape; shapes are static in a plan");
  if (!isMemory(getType()) || (getGlobal() && !isMemory(*getGlobal())))
    return emitOpError("is no tensor of elements with a size and of at most "
                       "2^62 bytes");
  bool isParameter = getRole() == Role::Parameter;
  if (getTrainable() && !isParameter)
    return emitOpError("is trainable, which only a parameter can be");
  if (getPersistent() && getRole() != Role::Buffer)
    return emitOpError("is persistent, which only a buffer can be");
  bool isOfParameter =
      getRole() == Role::Optimizer || getRole() == Role::Gradient;
  if (getParameter().has_value() != isOfParameter)
    return emitOpError("has `parameter` if and only if it is optimizer state "
                       "or a gradient");
  if (getUnit() && !isParameter)
    return emitOpError("belongs to a unit, which only a parameter can");
  if (getReplicated() && (!isParameter || getUnit() || getSharding()))
    return emitOpError("is replicated, which only a parameter without unit and "
                       "sharding can be");
  if (getGlobal() && !getSharding())
    return emitOpError("has a global type and no sharding");
  if (getFlat().has_value() != getFlatOffset().has_value())
    return emitOpError(
        "has one of `flat` and `flat_offset`, which go together");
  if (getFlat() && (getIsFlat() || getSharding()))
    return emitOpError("lies in a flat state, so it is none, and is not split");
  if (ArrayAttr init = getInitAttr()) {
    bool begins = isParameter || getRole() == Role::Buffer ||
                  getRole() == Role::Optimizer;
    if (!begins || getIsFlat())
      return emitOpError("has a recipe for its first value, which only a "
                         "parameter, a buffer or optimizer state can have");
    auto first = init.empty() ? InitAttr() : cast<InitAttr>(init[0]);
    if (!first || first.getKind() > InitKind::Normal || first.getSizes())
      return emitOpError("has a recipe whose first step gives no value to "
                         "every element; begin with fill, uniform or normal");
  }
  if (auto dim = kShardDimAttr.get(*this);
      dim && (dim.getInt() < 0 ||
              dim.getInt() >= std::max<int64_t>(getTensorType().getRank(), 1)))
    return emitOpError() << "is to be split on dimension " << dim.getInt()
                         << " of " << getType();
  if (getGlobal() && getGlobalType().getRank() != getTensorType().getRank())
    return emitOpError("has a global type of another rank than its local one");
  return success();
}

/// The sharding is over axes of the module's mesh, of dimensions that exist.
static LogicalResult verifySharding(StateOp state, ShardingAttr sharding) {
  Mesh mesh(state);
  StringRef name = sharding.getGrid().getValue();
  if (!mesh || mesh.getGrid().getSymName() != name)
    return state.emitOpError() << "is split over " << sharding.getGrid()
                               << ", which is not the module's first grid";
  ArrayRef<shard::GridAxesAttr> axes = sharding.getSplitAxes().getAxes();
  // A number without dimensions is split as one row.
  if (int64_t(axes.size()) >
      std::max<int64_t>(state.getTensorType().getRank(), 1))
    return state.emitOpError() << "is split on dimension " << axes.size() - 1
                               << " of " << state.getType();
  for (shard::GridAxesAttr ofDim : axes)
    for (int16_t axis : ofDim.asArrayRef())
      if (axis < 0 || axis >= mesh.getNumAxes() || mesh.getSize(axis) < 1)
        return state.emitOpError()
               << "is split over axis " << axis << " of " << sharding.getGrid()
               << ", which is not there or has no ranks";
  return success();
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (FlatSymbolRefAttr name = getParameterAttr()) {
    StateOp parameter = lookupState(*this, tables, name);
    if (!parameter)
      return failure();
    if (parameter.getRole() != Role::Parameter)
      return emitOpError() << "is of " << name << ", which is no parameter";
  }
  if (FlatSymbolRefAttr name = getFlatAttr()) {
    StateOp flat = lookupState(*this, tables, name);
    if (!flat)
      return failure();
    if (!flat.getIsFlat())
      return emitOpError() << "lies in " << name << ", which is no flat state";
  }
  if (std::optional<ShardingAttr> sharding = getSharding())
    return verifySharding(*this, *sharding);
  return success();
}

std::optional<int64_t> StateOp::getShardDim() {
  if (std::optional<ShardingAttr> sharding = getSharding())
    for (auto [dim, axes] : llvm::enumerate(sharding->getSplitAxes().getAxes()))
      if (!axes.empty())
        return dim;
  return std::nullopt;
}

// load, store

LogicalResult LoadOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = lookupState(*this, tables, getStateAttr());
  if (!state)
    return failure();
  if (state.getType() != getType())
    return (emitOpError() << "reads " << getType() << ", but the state is "
                          << state.getType())
               .attachNote(state.getLoc())
           << "the state is here";
  return success();
}

void LoadOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  addStateEffects(*this, effects);
}

SmallVector<FlatSymbolRefAttr> LoadOp::getReadStates() {
  return {getStateAttr()};
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = lookupState(*this, tables, getStateAttr());
  if (!state)
    return failure();
  auto update = getValue().getDefiningOp<UpdateOp>();
  bool isUpdated = update && update.getParameterAttr() == getStateAttr();
  if (state.getRole() != Role::Buffer && state.getRole() != Role::Gradient &&
      !isUpdated)
    return emitOpError() << "writes " << getStateAttr()
                         << ", which is not a buffer; parameters and "
                            "optimizer state are written by `fsdp.update`";
  if (!sameShapeAndElements(state.getType(), getValue().getType()))
    return emitOpError() << "writes " << getValue().getType()
                         << ", but the state is " << state.getType();
  return success();
}

void StoreOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  addStateEffects(*this, effects);
}

SmallVector<FlatSymbolRefAttr> StoreOp::getWrittenStates() {
  return {getStateAttr()};
}

// state_value

LogicalResult StateValueOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = lookupState(*this, tables, getStateAttr());
  if (!state)
    return failure();
  if (state.getTensorType().getRank() != 0 || state.getSharding())
    return emitOpError() << "reads " << getStateAttr()
                         << ", which is not one number that every rank has";
  return success();
}

SmallVector<FlatSymbolRefAttr> StateValueOp::getReadStates() {
  return {getStateAttr()};
}

// recurrence

LogicalResult RecurrenceOp::verify() {
  Block &block = getBody().front();
  size_t count = getInitial().size();
  if (count != getNumbers().size() || count != block.getNumArguments() ||
      count != block.getTerminator()->getNumOperands() ||
      !llvm::all_of(block.getArgumentTypes(),
                    [](Type type) { return type.isF64(); }))
    return emitOpError("has not as many f64 arguments and yielded numbers as "
                       "operands and results");
  return success();
}

// update

LogicalResult UpdateOp::verify() {
  if (bool(getStaged()) != bool(getResult()) ||
      (getStaged() && getStaged().getType() != getResult().getType()))
    return emitOpError("gives the staged parameter that it changes, and "
                       "nothing where there is none");
  return success();
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp parameter = lookupState(*this, tables, getParameterAttr());
  if (!parameter)
    return failure();
  if (parameter.getRole() != Role::Parameter || !parameter.getTrainable())
    return emitOpError() << "updates " << getParameterAttr()
                         << ", which is not a trainable parameter";
  if (!sameShapeAndElements(parameter.getType(), getGradient().getType()))
    return emitOpError() << "has a gradient of " << getGradient().getType()
                         << " for a parameter of " << parameter.getType();
  if (getStaged() && getStaged().getType() != parameter.getType())
    return emitOpError() << "stages " << getStaged().getType()
                         << " for a parameter of " << parameter.getType();
  for (Attribute attr : getStates()) {
    auto name = cast<FlatSymbolRefAttr>(attr);
    StateOp state = lookupState(*this, tables, name);
    if (!state)
      return failure();
    if (state.getParameterAttr() != getParameterAttr())
      return emitOpError() << "uses " << name
                           << ", which is not optimizer state of "
                           << getParameterAttr();
  }

  FunctionOpInterface rule = lookupRule(*this, tables, getRuleAttr());
  if (!rule)
    return failure();
  size_t states = getStates().size(), operands = states + 2 + getGiven().size();
  if (rule.getNumArguments() != operands || rule.getNumResults() != states + 1)
    return emitOpError() << "passes " << operands << " operands to a rule of "
                         << rule.getNumArguments() << " and expects "
                         << states + 1 << " results of its "
                         << rule.getNumResults();
  return success();
}

void UpdateOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  addStateEffects(*this, effects);
}

SmallVector<FlatSymbolRefAttr> UpdateOp::getReadStates() {
  return getWrittenStates();
}
SmallVector<FlatSymbolRefAttr> UpdateOp::getWrittenStates() {
  return getUpdatedStates(*this);
}
