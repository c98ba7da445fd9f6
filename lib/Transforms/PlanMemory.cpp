// Give every value and state its bytes.

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_PLANMEMORY
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

/// Whether a value's bytes are its tensor's elements in row-major order, from
/// its place's first byte on.
static bool isPlain(Value value) {
  if (cast<RankedTensorType>(value.getType()).getEncoding())
    return false;
  auto call = value.getDefiningOp<aten::CallOp>();
  return !call ||
         !call.getAliasedOperand(cast<OpResult>(value).getResultNumber());
}

/// Packs and stores move bytes, so what they read must be plain.
static void cloneStridedOperands(func::FuncOp program) {
  SmallVector<OpOperand *> strided;
  for (Operation &op : program.getOps())
    if (isa<PackOp, StoreOp>(op))
      for (OpOperand &operand : op.getOpOperands())
        if (!isPlain(operand.get()))
          strided.push_back(&operand);
  for (OpOperand *operand : strided) {
    Operation *user = operand->getOwner();
    OpBuilder builder(user);
    auto type = cast<RankedTensorType>(operand->get().getType());
    auto contiguous = builder.getNamedAttr(
        "memory_format",
        builder.getI64IntegerAttr(0)); // torch.contiguous_format
    auto clone = aten::CallOp::create(
        builder, user->getLoc(), "clone", operand->get(), contiguous,
        RankedTensorType::get(type.getShape(), type.getElementType()));
    if (Attribute stream = user->getAttr(kStreamAttrName))
      clone->setAttr(kStreamAttrName, stream);
    operand->set(clone.getResult(0));
  }
}

/// A store copies bytes, so the state must be row-major as its value now is.
static LogicalResult checkStores(func::FuncOp program) {
  for (auto store : program.getOps<StoreOp>()) {
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
        store, store.getStateAttr());
    if (state.getTensorType().getEncoding())
      return store.emitOpError()
             << "writes the state " << store.getStateAttr()
             << ", which is not row-major; make the buffer contiguous";
  }
  return success();
}

/// Places states one after the other; returns the first byte behind them.
static int64_t placeStates(ModuleOp module) {
  int64_t offset = 0;
  for (auto state : module.getOps<StateOp>()) {
    int64_t bytes = getSpanBytes(state.getTensorType());
    state->setAttr(kPlaceAttrName, PlaceAttr::get(module.getContext(),
                                                  kDeviceArena, offset, bytes));
    offset = llvm::alignTo(static_cast<uint64_t>(offset + bytes), kAlignment);
  }
  return offset;
}

/// Notes the places of a program's values, from the offset `base` on; returns
/// the first byte behind them.
static FailureOr<int64_t> placeValues(func::FuncOp program, int64_t base,
                                      bool reuse) {
  FailureOr<ProgramLiveness> liveness = ProgramLiveness::compute(program);
  if (failed(liveness) || failed(liveness->verify(program)))
    return failure();

  MLIRContext *context = program.getContext();
  SmallVector<LiveBlock> blocks;
  for (const ProgramLiveness::Storage &storage : liveness->getStorages())
    if (!storage.state)
      blocks.push_back(storage.block);
  OffsetPlan plan = planOffsets(blocks, reuse);

  DenseMap<Value, PlaceAttr> places;
  const int64_t *next = plan.offsets.begin();
  for (const ProgramLiveness::Storage &storage : liveness->getStorages())
    places[storage.root] =
        storage.state ? getPlace(StateOp(storage.state))
                      : PlaceAttr::get(context, kDeviceArena, base + *next++,
                                       storage.block.bytes);

  for (BlockArgument argument : program.getArguments())
    if (PlaceAttr place = places.lookup(argument))
      program.setArgAttr(argument.getArgNumber(), kPlaceAttrName, place);
  for (Operation &op : program.getOps()) {
    SmallVector<Attribute> results;
    bool any = false;
    for (Value result : op.getResults()) {
      PlaceAttr place = getMemoryType(result)
                            ? places.lookup(liveness->getRoot(result))
                            : PlaceAttr();
      any |= bool(place);
      results.push_back(place ? Attribute(place) : UnitAttr::get(context));
    }
    if (any)
      op.setAttr(kPlacesAttrName, ArrayAttr::get(context, results));
  }

  int64_t sum = planOffsets(blocks, /*reuse=*/false).bytes;
  remark::passed(program.getLoc(), remark::RemarkOpts::name("PlanMemory")
                                       .category("fsdp-plan-memory")
                                       .function(program.getSymName()))
      << remark::metric("Bytes", plan.bytes)
      << remark::metric("LeastBytes", liveness->getPeakBytes())
      << remark::metric("BytesWithoutReuse", sum)
      << remark::metric("Values", blocks.size());
  return base + plan.bytes;
}

namespace {
struct PlanMemoryPass : fsdp::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t states = placeStates(module), device = states;
    for (func::FuncOp program : getPrograms(module)) {
      cloneStridedOperands(program);
      if (failed(checkStores(program)))
        return signalPassFailure();
      FailureOr<int64_t> end = placeValues(program, states, !noReuse);
      if (failed(end))
        return signalPassFailure();
      device = std::max(device, *end);
    }
    module->setAttr(
        kArenasAttrName,
        DenseI64ArrayAttr::get(&getContext(), {device, /*window=*/0}));
  }
};
} // namespace
