// fsdp-agree-on-skips.

#include "Remarks.h"
#include "Shard/SkippedSteps.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"

namespace fsdp {
#define GEN_PASS_DEF_AGREEONSKIPS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// By the number that says on this rank whether updates are skipped.
using Skips = llvm::MapVector<Value, SmallVector<UpdateOp>>;

class AgreeOnSkips : public fsdp::impl::AgreeOnSkipsBase<AgreeOnSkips> {
  void runOnModule() override;
  LogicalResult count(func::FuncOp program, const Skips &skips);
};

Skips getSkips(func::FuncOp program) {
  Skips skips;
  for (UpdateOp update : getUpdates(program))
    if (update.getSkip())
      skips[update.getSkip()].push_back(update);
  return skips;
}

/// A number at a place of a list.
Value select(OpBuilder &builder, Location loc, Value list, int64_t index) {
  NamedAttribute args[] = {
      builder.getNamedAttr("dim", builder.getI64IntegerAttr(0)),
      builder.getNamedAttr("index", builder.getI64IntegerAttr(index))};
  auto element = cast<RankedTensorType>(list.getType()).getElementType();
  return aten::CallOp::create(builder, loc, aten::Direction::Backward,
                              "select.int", list, args,
                              TypeRange(RankedTensorType::get({}, element)))
      ->getResult(0);
}

/// Has updates skipped where no rank does anything else: one collective for all
/// of them, along each role of the mesh.
void agree(OpBuilder &builder, Location loc, const Mesh &mesh, Skips &skips) {
  SmallVector<Value> own = llvm::map_to_vector(
      skips, [](const auto &entry) { return entry.first; });
  auto numbers =
      RankedTensorType::get({int64_t(own.size())}, builder.getF32Type());
  Value list = createListCall(builder, loc, "stack", own, {}, numbers);
  ScalarCalls scalars(builder, loc);
  Value has = isZero(scalars, list);
  MLIRContext *context = builder.getContext();
  for (AxisRole role : {AxisRole::Shard, AxisRole::Replicate})
    if (mesh.getNumRanks(role) > 1)
      has = AllReduceOp::create(
          builder, loc, numbers, ReduceOpAttr::get(context, ReduceOp::Max),
          CollectiveRoleAttr::get(context, CollectiveRole::Skip), has,
          /*unit=*/StringAttr(),
          builder.getDenseI64ArrayAttr(mesh.getAxes(role)),
          builder.getF64FloatAttr(1.0));
  Value lacks = isZero(scalars, has);
  Skips agreed;
  for (auto [index, entry] : llvm::enumerate(skips)) {
    Value skip = select(builder, loc, lacks, index);
    for (UpdateOp update : entry.second)
      update.getSkipMutable().assign(skip);
    agreed[skip] = std::move(entry.second);
  }
  skips = std::move(agreed);
}

/// Adds this step to what counts those that leave a rule's parameters alone.
LogicalResult AgreeOnSkips::count(func::FuncOp program, const Skips &skips) {
  SymbolTable table(getOperation());
  OpBuilder builder(program.getBody().front().getTerminator());
  llvm::StringMap<Value> counted;
  for (auto &[skip, updates] : skips)
    for (UpdateOp update : updates) {
      FlatSymbolRefAttr name = getMissed(update);
      auto state = name ? table.lookup<StateOp>(name.getValue()) : StateOp();
      if (!state || state.getRole() != Role::Buffer ||
          !state.getTensorType().getElementType().isF64() ||
          state.getTensorType().getRank() != 0)
        return update.emitOpError("may be skipped, and its rule has no buffer, "
                                  "a tensor<f64>, that counts such steps");
      auto [it, isNew] = counted.try_emplace(name.getValue(), skip);
      if (it->second != skip)
        return update.emitOpError("is skipped on another condition than those "
                                  "before it that @")
               << name.getValue() << " counts";
      if (!isNew)
        continue;
      Location loc = update.getLoc();
      Value before = loadState(builder, loc, name.getValue());
      Value after =
          ScalarCalls(builder, loc).call("add.Tensor", {before, skip});
      StoreOp::create(builder, loc, after, name.getValue());
    }
  return success();
}

void AgreeOnSkips::runOnModule() {
  for (func::FuncOp program : getPrograms(getOperation())) {
    Skips skips = getSkips(program);
    if (skips.empty())
      continue;
    Operation *end = program.getBody().front().getTerminator();
    OpBuilder builder(end);
    Location loc = NameLoc::get(builder.getStringAttr("agree_on_skips"));
    Mesh mesh(program);
    if (mesh.getNumRanks() > 1)
      agree(builder, loc, mesh, skips);
    int64_t updates = 0;
    for (auto &[skip, of] : skips)
      for (UpdateOp update : of) {
        update->moveBefore(end);
        ++updates;
      }
    if (failed(count(program, skips)))
      return signalPassFailure();
    remarkPassed(R::AgreedSkips, program.getLoc(), program.getSymName())
        << "they are left out where no rank has a gradient"
        << metrics::Updates(updates);
  }
}

} // namespace
