// Give every value and state its bytes.

#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_PLANMEMORY
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

/// Packs, stores and offloads move bytes, so they read all of the bytes of a
/// value, in row-major order.
static void cloneStridedOperands(func::FuncOp program) {
  Aliases aliases(program.getBody().front());
  SmallVector<OpOperand *> strided;
  for (Operation &op : program.getOps())
    if (isa<PackOp, StoreOp, OffloadStartOp>(op))
      for (OpOperand &operand : op.getOpOperands())
        if (!aliases.getSameBytes(operand.get()))
          strided.push_back(&operand);
  for (OpOperand *operand : strided) {
    Operation *user = operand->getOwner();
    OpBuilder builder(user);
    auto type = cast<RankedTensorType>(operand->get().getType());
    auto contiguous = builder.getNamedAttr(
        "memory_format",
        builder.getI64IntegerAttr(0)); // torch.contiguous_format
    auto clone = aten::CallOp::create(
        builder, user->getLoc(), aten::Direction::Forward, "clone",
        operand->get(), contiguous,
        RankedTensorType::get(type.getShape(), type.getElementType()));
    if (kStreamAttr.isOn(user))
      kStreamAttr.set(clone, plan::computeStream);
    remarkMissed(R::CopiedOperand, operand->get().getLoc(),
                 program.getSymName())
        << "a copy row by row, as communication needs it"
        << metrics::Module(getModulePath(operand->get().getLoc()))
        << metrics::Line(getSourceLine(operand->get().getLoc()))
        << metrics::Of(getOperator(operand->get()))
        << metrics::Bytes(getTensorBytes(type));
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

namespace {

/// The places of one module.
class MemoryPlanner {
public:
  MemoryPlanner(ModuleOp module, bool best) : module(module), best(best) {}

  LogicalResult run(StringRef budgetMib) {
    std::optional<int64_t> budget;
    if (failed(
            readOptions(module, [&] { budget = readMemoryBudget(budgetMib); })))
      return failure();
    placeStates();
    const SmallVector<int64_t> bases(ends);
    for (func::FuncOp program : getPrograms(module)) {
      cloneStridedOperands(program);
      if (failed(checkStores(program)) || failed(placeValues(program, bases)))
        return failure();
    }
    kArenasAttr.set(module, ends);
    if (budget && ends[kDeviceArena] > *budget)
      warnOfGaps(budgetMib, *budget);
    return success();
  }

private:
  /// The passes before have kept what is in use at one time within the budget.
  void warnOfGaps(StringRef budgetMib, int64_t budget) {
    module.emitWarning("the device arena takes ")
        << ends[kDeviceArena] << " bytes, " << ends[kDeviceArena] - budget
        << " more than memory-budget-mib=" << budgetMib
        << ": what is in use at one time fits, and its addresses leave gaps; "
           "lower the budget by as much where the device has no more";
  }

  PlaceAttr makePlace(int64_t arena, int64_t offset, int64_t bytes) {
    return PlaceAttr::get(module.getContext(), arena, offset, bytes);
  }

  /// The states that a mapped gather of some program shows.
  DenseSet<StateOp> findShown() {
    SymbolTable symbols(module);
    DenseSet<StateOp> shown;
    for (func::FuncOp program : getPrograms(module))
      for (auto gather : program.getOps<CollectiveOpInterface>())
        if (auto load = gather->getOperand(0).getDefiningOp<LoadOp>();
            load && gather.getMapped())
          shown.insert(symbols.lookup<StateOp>(load.getState()));
    return shown;
  }

  /// Places states one after the other: first those that a window shows, which
  /// are whole pages, each with its range of the window.
  void placeStates() {
    DenseSet<StateOp> shown = findShown();
    auto place = [&](StateOp state, int64_t alignment) {
      int64_t bytes = getSpanBytes(state.getTensorType());
      int64_t arena = state.getOnHost() ? kHostArena : kDeviceArena;
      int64_t &end = ends[arena];
      end = llvm::alignTo(static_cast<uint64_t>(end), alignment);
      kPlaceAttr.set(state, makePlace(arena, end, bytes));
      end += bytes;
    };
    int64_t &window = ends[kWindowArena];
    for (auto state : module.getOps<StateOp>())
      if (shown.contains(state)) {
        place(state, kPageBytes);
        int64_t bytes =
            getSpanBytes(state.getTensorType()) * Mesh(module).getNumShards();
        windows[state] = makePlace(kWindowArena, window, bytes);
        window =
            llvm::alignTo(static_cast<uint64_t>(window + bytes), kPageBytes);
      }
    for (auto state : module.getOps<StateOp>())
      if (!shown.contains(state) && !state.getFlat())
        place(state, kAlignment);
    for (int64_t arena : {kDeviceArena, kHostArena})
      ends[arena] =
          llvm::alignTo(static_cast<uint64_t>(ends[arena]), kAlignment);

    SymbolTable symbols(module);
    for (auto state : module.getOps<StateOp>())
      if (auto flat = state.getFlat())
        kPlaceAttr.set(state, getPlace(symbols.lookup<StateOp>(*flat)));
  }

  /// Notes the places of a program's values, in each arena its own from the
  /// offset in `bases` on.
  LogicalResult placeValues(func::FuncOp program, ArrayRef<int64_t> bases) {
    FailureOr<ProgramLiveness> liveness = ProgramLiveness::compute(program);
    if (failed(liveness) || failed(liveness->verify(program)))
      return failure();

    DenseMap<Value, PlaceAttr> places; // of owners
    for (const ProgramLiveness::Storage &storage : liveness->getStorages())
      if (StateOp state = storage.state)
        places[storage.root] = storage.arena == kWindowArena
                                   ? windows.lookup(state)
                                   : getPlace(state);
    for (int64_t arena : {kDeviceArena, kHostArena})
      placeOwn(program, *liveness, arena, bases[arena], places);

    auto getPlaceOf = [&](Value value) -> PlaceAttr {
      const Aliases &aliases = liveness->getAliases();
      if (!getMemoryType(value))
        return {};
      PlaceAttr owner = places.lookup(aliases.getOwner(value));
      auto part = aliases.getPart(aliases.getRoot(value));
      if (!part)
        return owner;
      return makePlace(owner.getArena(), owner.getOffset() + part->offset,
                       getSpanBytes(*getMemoryType(aliases.getRoot(value))));
    };
    for (BlockArgument argument : program.getArguments())
      if (PlaceAttr place = getPlaceOf(argument))
        kPlaceAttr.setOfArgument(program, argument.getArgNumber(), place);
    for (Operation &op : program.getOps()) {
      SmallVector<Attribute> results;
      bool any = false;
      for (Value result : op.getResults()) {
        PlaceAttr place = getPlaceOf(result);
        any |= bool(place);
        results.push_back(place ? Attribute(place)
                                : UnitAttr::get(module.getContext()));
      }
      if (any)
        kPlacesAttr.set(&op, results);
    }

    return success();
  }

  /// Gives what a program owns in one arena its bytes, from `base` on.
  void placeOwn(func::FuncOp program, const ProgramLiveness &liveness,
                int64_t arena, int64_t base,
                DenseMap<Value, PlaceAttr> &places) {
    SmallVector<LiveBlock> blocks;
    SmallVector<Value> owners;
    for (const ProgramLiveness::Storage &storage : liveness.getStorages())
      if (!storage.state && storage.arena == arena) {
        blocks.push_back(storage.block);
        owners.push_back(storage.root);
      }
    OffsetPlan apart = planApart(blocks);
    OffsetPlan plan = best ? planBest(blocks) : apart;
    ends[arena] = std::max(ends[arena], base + plan.bytes);
    for (auto [owner, offset, block] :
         llvm::zip_equal(owners, plan.offsets, blocks))
      places[owner] = makePlace(arena, base + offset, block.bytes);

    int64_t least = getPeakBytes(blocks);
    if (arena == kHostArena && base + least == 0)
      return;
    (arena == kHostArena ? kHostLiveBytesAttr : kLiveBytesAttr)
        .set(program, base + least);
    remarkPassed(R::PlannedMemory, program.getLoc(), program.getSymName())
        << metrics::Arena(plan::arenaNames[arena])
        << metrics::ArenaBytes(plan.bytes) << metrics::LeastBytes(least)
        << metrics::BytesWithoutReuse(apart.bytes)
        << metrics::Values(blocks.size());
  }

  ModuleOp module;
  bool best;
  DenseMap<Operation *, PlaceAttr> windows; // of states that are shown
  SmallVector<int64_t> ends = SmallVector<int64_t>(kNumArenas, 0); // of arenas
};

struct PlanMemoryPass : fsdp::impl::PlanMemoryBase<PlanMemoryPass> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnModule() override {
    MemoryPlanner planner(getOperation(), algorithm == Placement::Best);
    if (failed(planner.run(memoryBudgetMib)))
      signalPassFailure();
  }
};
} // namespace
