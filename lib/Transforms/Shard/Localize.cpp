// fsdp-localize.

#include "GradientMean.h"
#include "Remarks.h"
#include "Shard/ShardRows.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"

namespace fsdp {
#define GEN_PASS_DEF_LOCALIZE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// The type with another size of one dimension.
RankedTensorType withSize(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return RankedTensorType::get(shape, type.getElementType());
}

class Localize : public fsdp::impl::LocalizeBase<Localize> {
  void runOnModule() override;

  RankedTensorType getLocalType(RankedTensorType type, int64_t dim) const {
    return withSize(type, dim, getLocalRows(type.getDimSize(dim), shards));
  }
  /// The ranks' parts one after the other in dimension 0.
  RankedTensorType getRowsType(RankedTensorType type, int64_t dim) const {
    RankedTensorType local = getLocalType(type, dim);
    return withSize(local, 0, shards * local.getDimSize(0));
  }
  /// The dimension on which the parameter is split that an unshard reads, or
  /// whose update reads what is reduced.
  int64_t getShardDim(UnshardOp op) const;
  int64_t getShardDim(ReduceGradOp op) const;
  StateOp getParameter(ReduceGradOp op) const;
  /// Whether each rank has the whole parameter whose gradient this is.
  bool isWhole(ReduceGradOp op) const;
  int64_t getShardDim(StringRef state) const {
    return *table->lookup<StateOp>(state).getShardDim();
  }

  FlatSymbolRefAttr getGrid() {
    return FlatSymbolRefAttr::get(mesh->getGrid().getSymNameAttr());
  }
  DenseI16ArrayAttr getGridAxes(AxisRole role) {
    return DenseI16ArrayAttr::get(
        &getContext(), llvm::to_vector_of<int16_t>(mesh->getAxes(role)));
  }

  LogicalResult check(func::FuncOp program, const SymbolTable &table);
  void gather(UnshardOp op);
  void reduce(ReduceGradOp op);
  void sum(SumOverRanksOp op);
  Value sumOverShards(OpBuilder &builder, ReduceGradOp op, Value gradient);
  Value meanOverRanks(OpBuilder &builder, ReduceGradOp op, Value gradient,
                      double divisor);
  Value sumOver(OpBuilder &builder, Location loc, AxisRole over, Value own,
                CollectiveRole of, StringAttr unit, double divisor);

  std::optional<Mesh> mesh;
  int64_t shards = 1;
  const SymbolTable *table = nullptr;
  const GradientMeans *means = nullptr;
};

int64_t Localize::getShardDim(UnshardOp op) const {
  // A cast may stand in between.
  Operation *source = op.getInput().getDefiningOp();
  while (source && !isa<LoadOp>(source) && source->getNumOperands())
    source = source->getOperand(0).getDefiningOp();
  auto load = dyn_cast_or_null<LoadOp>(source);
  return load ? getShardDim(load.getState()) : 0;
}

StateOp Localize::getParameter(ReduceGradOp op) const {
  auto readers = llvm::to_vector(op->getUsers());
  for (size_t i = 0; i < readers.size(); ++i) {
    if (auto update = dyn_cast<UpdateOp>(readers[i]))
      return table->lookup<StateOp>(update.getParameter());
    llvm::append_range(readers, readers[i]->getUsers());
  }
  return {};
}

int64_t Localize::getShardDim(ReduceGradOp op) const {
  StateOp parameter = getParameter(op);
  return parameter ? *parameter.getShardDim() : 0;
}

bool Localize::isWhole(ReduceGradOp op) const {
  StateOp parameter = getParameter(op);
  return parameter && !parameter.getSharding() && !parameter.getFlat();
}

/// Readers of a sharded parameter would go on with a part of it, and its update
/// with a gradient that no other rank has added to.
LogicalResult Localize::check(func::FuncOp program, const SymbolTable &table) {
  auto isSharded = [&](StringRef name) {
    auto state = table.lookup<StateOp>(name);
    return state && state.getSharding() && !state.getGlobal();
  };
  WalkResult result = program.walk([&](Operation *op) {
    if (auto load = dyn_cast<LoadOp>(op); load && isSharded(load.getState())) {
      for (Operation *reader : getReadersThroughCasts(load.getResult()))
        if (!isa<UnshardOp>(reader)) {
          reader->emitOpError("reads sharded @")
              << load.getState()
              << " without an fsdp.unshard; run --fsdp-insert-unshard first";
          return WalkResult::interrupt();
        }
    } else if (auto update = dyn_cast<UpdateOp>(op);
               update && isSharded(update.getParameter()) &&
               !getReduction(update)) {
      update.emitOpError("of sharded @")
          << update.getParameter()
          << " has a gradient that is not reduced; run "
             "--fsdp-insert-grad-reduction first";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

void Localize::gather(UnshardOp op) {
  if (shards == 1) { // only replicas: each rank has the whole
    op.replaceAllUsesWith(op.getInput());
    op.erase();
    return;
  }
  auto type = cast<RankedTensorType>(op.getType());
  int64_t dim = getShardDim(op);
  RankedTensorType padded = getRowsType(type, dim);
  OpBuilder builder(op);
  aten::Direction direction = getDirection(op.getRegion());
  auto gather = shard::AllGatherOp::create(
      builder, op.getLoc(), padded, getGrid(), getGridAxes(AxisRole::Shard),
      op.getInput(), builder.getIndexAttr(0));
  kUnitAttr.set(gather, op.getUnitAttr());
  kRegionAttr.set(gather, op.getRegionAttr());
  Value whole = gather.getResult();
  if (dim) {
    whole = rowsToWhole(builder, whole, type, dim, shards, direction);
  } else if (padded != type) {
    NamedAttribute args[] = {builder.getNamedAttr(
        "end", builder.getI64IntegerAttr(type.getDimSize(0)))};
    auto slice = aten::CallOp::create(builder, op.getLoc(), direction,
                                      "slice.Tensor", whole, args, type);
    whole = slice->getResult(0);
  }
  op.replaceAllUsesWith(whole);
  op.erase();
}

/// Divides what is reduced; of a bucket each member, where it is computed.
Value divideBefore(OpBuilder &builder, Value gradient, double divisor) {
  auto pack = gradient.getDefiningOp<PackOp>();
  if (!pack)
    return createDivision(builder, gradient.getLoc(), gradient, divisor);
  OpBuilder::InsertionGuard guard(builder);
  for (OpOperand &member : pack->getOpOperands()) {
    builder.setInsertionPointAfterValue(member.get());
    member.set(
        createDivision(builder, member.get().getLoc(), member.get(), divisor));
  }
  return gradient;
}

/// This rank's part of the sum over its shard group.
Value Localize::sumOverShards(OpBuilder &builder, ReduceGradOp op,
                              Value gradient) {
  if (shards == 1)
    return gradient;
  auto type = cast<RankedTensorType>(op.getType());
  int64_t dim = getShardDim(op);
  RankedTensorType padded = getRowsType(type, dim),
                   local = getLocalType(type, dim);
  if (dim) {
    gradient =
        partsToRows(builder, gradient, dim, shards, aten::Direction::Backward);
  } else if (padded != type) {
    // Pairs of (before, after), the last dimension first.
    SmallVector<int64_t> pad(2 * type.getRank(), 0);
    pad.back() = padded.getDimSize(0) - type.getDimSize(0);
    NamedAttribute args[] = {
        builder.getNamedAttr("pad", builder.getDenseI64ArrayAttr(pad))};
    auto call =
        aten::CallOp::create(builder, op.getLoc(), aten::Direction::Backward,
                             "constant_pad_nd", gradient, args, padded);
    gradient = call->getResult(0);
  }
  auto sum = shard::ReduceScatterOp::create(
      builder, op.getLoc(), local, getGrid(), getGridAxes(AxisRole::Shard),
      gradient,
      shard::ReductionKindAttr::get(&getContext(), shard::ReductionKind::Sum),
      builder.getIndexAttr(0));
  kUnitAttr.set(sum, op.getUnitAttr());
  return sum.getResult();
}

Value Localize::sumOver(OpBuilder &builder, Location loc, AxisRole over,
                        Value own, CollectiveRole of, StringAttr unit,
                        double divisor) {
  return AllReduceOp::create(builder, loc, own.getType(),
                             ReduceOpAttr::get(&getContext(), ReduceOp::Sum),
                             CollectiveRoleAttr::get(&getContext(), of), own,
                             unit,
                             builder.getDenseI64ArrayAttr(mesh->getAxes(over)),
                             builder.getF64FloatAttr(divisor));
}

/// The mean over all ranks, of a gradient whose parameter each has whole: a sum
/// over shards, and one over replicas, which divides where there are any.
Value Localize::meanOverRanks(OpBuilder &builder, ReduceGradOp op,
                              Value gradient, double divisor) {
  auto sum = [&](AxisRole over, double divisor) {
    gradient = sumOver(builder, op.getLoc(), over, gradient,
                       CollectiveRole::Gradient, op.getUnitAttr(), divisor);
  };
  if (shards > 1)
    sum(AxisRole::Shard, 1.0);
  if (mesh->getNumReplicas() == 1)
    return createDivision(builder, op.getLoc(), gradient, divisor);
  sum(AxisRole::Replicate, divisor);
  return gradient;
}

void Localize::reduce(ReduceGradOp op) {
  OpBuilder builder(op);
  auto [before, after] = means->get(op.getUnitAttr(), op.getType());
  Value gradient = divideBefore(builder, op.getInput(), before);
  if (isWhole(op)) {
    op.replaceAllUsesWith(meanOverRanks(builder, op, gradient, after));
    op.erase();
    return;
  }
  Value sum = sumOverShards(builder, op, gradient);
  if (mesh->getNumReplicas() > 1) {
    auto all = shard::AllReduceOp::create(
        builder, op.getLoc(), sum.getType(), getGrid(),
        getGridAxes(AxisRole::Replicate), sum,
        shard::ReductionKindAttr::get(&getContext(),
                                      shard::ReductionKind::Sum));
    kUnitAttr.set(all, op.getUnitAttr());
    sum = all.getResult();
  }
  op.replaceAllUsesWith(createDivision(builder, op.getLoc(), sum, after));
  op.erase();
}

/// A tensor in memory of its own, as collectives send them.
Value inOwnMemory(OpBuilder &builder, Value value) {
  auto call = value.getDefiningOp<aten::CallOp>();
  if (call && !call.isView())
    return value;
  return aten::CallOp::create(builder, value.getLoc(), aten::Direction::Forward,
                              "clone", value, {}, TypeRange(value.getType()))
      ->getResult(0);
}

/// Over shards, and then over replicas. A rank that is alone has a collective
/// as well, which gives it its own tensor.
void Localize::sum(SumOverRanksOp op) {
  OpBuilder builder(op);
  Value total = inOwnMemory(builder, op.getInput());
  auto add = [&](AxisRole over) {
    total = sumOver(builder, op.getLoc(), over, total, CollectiveRole::Step,
                    /*unit=*/StringAttr(), /*divisor=*/1.0);
  };
  if (shards > 1 || mesh->getNumReplicas() == 1)
    add(AxisRole::Shard);
  if (mesh->getNumReplicas() > 1)
    add(AxisRole::Replicate);
  op.replaceAllUsesWith(total);
  op.erase();
}

void Localize::runOnModule() {
  ModuleOp module = getOperation();
  SymbolTable table(module);
  this->table = &table;
  GradientMeans means(module);
  this->means = &means;
  mesh.emplace(module);
  // A mesh that came later would find no collective that adds up its ranks.
  if (!*mesh) {
    module.emitError("the module has no mesh; run fsdp-shard-state first");
    return signalPassFailure();
  }
  shards = mesh->getNumShards();

  for (func::FuncOp program : getPrograms(module))
    if (failed(check(program, table)))
      return signalPassFailure();
  for (StateOp state : module.getOps<StateOp>())
    if (state.getSharding() && state.getTensorType().getRank() == 0) {
      state.emitOpError("is a scalar, which has no rows to split; run "
                        "--fsdp-flatten-state first");
      return signalPassFailure();
    }
  for (StateOp state : module.getOps<StateOp>()) {
    if (!state.getSharding() || state.getGlobal())
      continue;
    RankedTensorType type = state.getTensorType();
    state.setGlobalAttr(TypeAttr::get(type));
    state.setType(getLocalType(type, *state.getShardDim()));
    remarkPassed(R::LocalState, state.getLoc())
        << "each rank has its part" << metrics::State(state.getSymName())
        << metrics::Bytes(getTensorBytes(type))
        << metrics::BytesPerRank(getTensorBytes(state.getTensorType()));
  }
  for (func::FuncOp program : getPrograms(module)) {
    program.walk([&](Operation *op) {
      if (auto unshard = dyn_cast<UnshardOp>(op))
        gather(unshard);
      else if (auto reduction = dyn_cast<ReduceGradOp>(op))
        reduce(reduction);
      else if (auto ofStep = dyn_cast<SumOverRanksOp>(op))
        sum(ofStep);
    });
    program.walk([&](LoadOp load) {
      if (auto state = table.lookup<StateOp>(load.getState()))
        load.getResult().setType(state.getTensorType());
    });
    // Those of parts are parts now.
    program.walk([&](aten::CallOp call) {
      if (aten::isPrecisionCast(call))
        call.getResult(0).setType(
            cast<RankedTensorType>(call.getResult(0).getType())
                .clone(cast<RankedTensorType>(call->getOperand(0).getType())
                           .getShape()));
    });
  }
}

} // namespace
