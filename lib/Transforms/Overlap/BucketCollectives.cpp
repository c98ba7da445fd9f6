// fsdp-bucket-collectives.

#include "BucketSizes.h"
#include "GradientMean.h"
#include "Overlap/BucketLayout.h"
#include "Overlap/BucketOffloads.h"
#include "Overlap/CodeMotion.h"
#include "Overlap/GradientReduction.h"
#include "Remarks.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"

namespace fsdp {
#define GEN_PASS_DEF_BUCKETCOLLECTIVES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The axes that a member of a bucket is over, and so the bucket.
DenseI64ArrayAttr getAxesAttr(CollectiveOpInterface op) {
  return Builder(op.getContext()).getDenseI64ArrayAttr(op.getMeshAxes());
}

class BucketCollectives
    : public fsdp::impl::BucketCollectivesBase<BucketCollectives> {
public:
  using BucketCollectivesBase::BucketCollectivesBase;

private:
  void runOnModule() override {
    FailureOr<BucketSizes> sizes =
        BucketSizes::get(getOperation(), bucketCapMib, cluster, R::BucketCut);
    if (failed(sizes))
      return signalPassFailure();
    shards = Mesh(getOperation()).getNumShards();
    SymbolTable symbols(getOperation());
    table = &symbols;
    GradientMeans gradientMeans(getOperation());
    means = &gradientMeans;
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Block &block : program.getBody())
        if (failed(bucket(block, *sizes)))
          return signalPassFailure();
  }

  LogicalResult checkNames(Operation &op);
  LogicalResult bucket(Block &block, const BucketSizes &sizes);
  void bucketGathers(ArrayRef<shard::AllGatherOp> gathers);
  void bucketReductions(MutableArrayRef<GradientReduction> reductions);
  Value createReduction(OpBuilder &builder, GradientReduction like,
                        bool divides, Value input, RankedTensorType piece,
                        function_ref<Value(Value)> accumulate);

  void convertFlat(shard::AllGatherOp gather, StateOp state);
  void convertFlat(GradientReduction reduction);
  /// The flat parameter that is gathered, or null.
  StateOp getFlat(shard::AllGatherOp gather) {
    LoadOp load = getGatheredLoad(gather.getInput());
    auto state = load ? table->lookup<StateOp>(load.getState()) : StateOp();
    return state && state.getIsFlat() ? state : StateOp();
  }

  /// What a sum of a unit's gradients, in the dtype of `input`, is divided by.
  double getDivisor(StringAttr unit, Value input) {
    return means->get(unit, input.getType()).after;
  }

  int64_t shards = 1;
  SymbolTable *table = nullptr;
  const GradientMeans *means = nullptr;
};

void BucketCollectives::bucketGathers(ArrayRef<shard::AllGatherOp> gathers) {
  // In front of the first reader. Loads and casts may stand behind it: they
  // move up, which is sound as nothing reads a parameter after its update.
  Operation *first = gathers.front();
  for (shard::AllGatherOp gather : gathers)
    for (Operation *reader : gather->getUsers())
      if (Operation *above = gather->getBlock()->findAncestorOpInBlock(*reader);
          above && above->isBeforeInBlock(first))
        first = above;
  OpBuilder builder(first);
  SmallVector<Value> parts;
  SmallVector<Type> wholeTypes;
  SmallVector<RankedTensorType> partTypes;
  for (shard::AllGatherOp gather : gathers) {
    parts.push_back(gather.getInput());
    partTypes.push_back(getTensorType(gather.getInput()));
    wholeTypes.push_back(gather.getType());
  }
  hoist(parts, first);

  BucketLayout layout(partTypes);
  Operation *one = gathers.front();
  auto like = cast<CollectiveOpInterface>(one);
  StringAttr unit = like.getUnitAttr();
  ProgramRegion region = *like.getRegion();
  Type byte = builder.getIntegerType(8, /*isSigned=*/false);
  Location loc = gathers.front()->getLoc();
  auto packed = PackOp::create(builder, loc,
                               RankedTensorType::get({layout.pieceBytes}, byte),
                               parts, layout.getMembers(builder, 1));
  auto gathered = AllGatherOp::create(
      builder, loc, RankedTensorType::get({shards * layout.pieceBytes}, byte),
      packed, unit.getValue(), region, /*mapped=*/false, /*ranks=*/0,
      like.getMeshAxes());
  auto unpacked = UnpackOp::create(builder, loc, wholeTypes, gathered,
                                   layout.getMembers(builder, shards));
  for (auto [gather, whole] : llvm::zip_equal(gathers, unpacked.getOutputs())) {
    shard::AllGatherOp(gather).getResult().replaceAllUsesWith(whole);
    shard::AllGatherOp(gather).erase();
  }
  remarkPassed(R::GatheredBucket, loc)
      << "parameters in one gather" << metrics::Unit(unit.getValue().str())
      << metrics::Region(stringifyProgramRegion(region).str())
      << metrics::Parameters(parts.size())
      << metrics::BytesPerRank(layout.pieceBytes);
}

/// A bucket's reduction, of the same sums as its members': what comes last
/// divides. `accumulate` adds what earlier micro-batches gave to the sum over
/// shards, where the members' reductions do.
Value BucketCollectives::createReduction(
    OpBuilder &builder, GradientReduction like, bool divides, Value input,
    RankedTensorType piece, function_ref<Value(Value)> accumulate) {
  Location loc = like.getFirst()->getLoc();
  StringAttr unit = like.getUnit();
  auto getDivisorAttr = [&](bool isLast) {
    return builder.getF64FloatAttr(isLast && divides ? getDivisor(unit, input)
                                                     : 1);
  };
  Value sum = input;
  if (like.overShards)
    sum = ReduceScatterOp::create(builder, loc, piece, sum, unit,
                                  getDivisorAttr(!like.overReplicas),
                                  getAxesAttr(cast<CollectiveOpInterface>(
                                      like.overShards.getOperation())));
  if (like.addition)
    sum = accumulate(sum);
  if (like.overReplicas)
    sum = AllReduceOp::create(
        builder, loc, piece, ReduceOpAttr::get(&getContext(), ReduceOp::Sum),
        CollectiveRoleAttr::get(&getContext(), CollectiveRole::Gradient), sum,
        unit,
        getAxesAttr(
            cast<CollectiveOpInterface>(like.overReplicas.getOperation())),
        getDivisorAttr(/*isLast=*/true));
  return sum;
}

void BucketCollectives::bucketReductions(
    MutableArrayRef<GradientReduction> reductions) {
  // Behind the last gradient, and in front of all that reads a sum.
  GradientReduction like = reductions.front();
  Operation *last = like.getFirst();
  SmallVector<Value> inputs, sums;
  SmallVector<RankedTensorType> partTypes;
  SmallVector<Type> resultTypes;
  // One division of the whole bucket, or none.
  bool divides = llvm::all_of(
      reductions, [](GradientReduction r) { return bool(r.division); });
  for (GradientReduction &reduction : reductions) {
    if (!divides)
      reduction.division = {};
    if (last->isBeforeInBlock(reduction.getFirst()))
      last = reduction.getFirst();
    inputs.push_back(reduction.getInput());
    for (Operation *op : {reduction.getFirst(), reduction.getSum()})
      sums.push_back(op->getResult(0));
    partTypes.push_back(getTensorType(reduction.getResult()));
    resultTypes.push_back(reduction.getResult().getType());
  }
  // What is made here comes right behind the last gradient, in front of these.
  moveReadersBehind(sums, last);

  BucketLayout layout(partTypes);
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(last);
  Type element = partTypes.front().getElementType();
  int64_t count = layout.pieceBytes / getElementBytes(element);
  int64_t pieces = like.overShards ? shards : 1;
  Location loc = last->getLoc();
  auto piece = RankedTensorType::get({count}, element);
  auto packed = PackOp::create(
      builder, loc,
      like.overShards ? RankedTensorType::get({pieces, count}, element) : piece,
      inputs, layout.getMembers(builder, pieces));
  ArrayAttr members = layout.getMembers(builder, 1);
  auto accumulate = [&](Value bucket) -> Value {
    auto parts = UnpackOp::create(builder, loc, resultTypes, bucket, members);
    SmallVector<Value> accumulated;
    Operation *behind = parts;
    for (auto [reduction, part] :
         llvm::zip_equal(reductions, parts.getOutputs())) {
      accumulated.push_back(reduction.addTo(part));
      Operation *load = reduction.addition->getOperand(0).getDefiningOp();
      for (Operation *op : {load, reduction.addition.getOperation()}) {
        moveTo(op, std::next(behind->getIterator()));
        behind = op;
      }
    }
    builder.setInsertionPointAfter(behind);
    return PackOp::create(builder, loc, piece, accumulated, members);
  };
  Value reduced =
      createReduction(builder, like, divides, packed, piece, accumulate);
  auto unpacked = UnpackOp::create(builder, loc, resultTypes, reduced, members);
  StringAttr unit = like.getUnit();
  offloadTogether(reductions, unpacked);
  for (auto [reduction, part] :
       llvm::zip_equal(reductions, unpacked.getOutputs()))
    reduction.replaceWith(part);
  remarkPassed(R::ReducedBucket, loc)
      << (pieces > 1 ? "gradients in one reduce-scatter"
                     : "gradients in one all-reduce")
      << metrics::Unit(unit.str()) << metrics::Gradients(inputs.size())
      << metrics::Bytes(pieces * layout.pieceBytes)
      << metrics::Divisor(divides ? getDivisor(unit, packed) : 1);
}

/// A flat parameter is the bucket of its members already.
void BucketCollectives::convertFlat(shard::AllGatherOp gather, StateOp state) {
  OpBuilder builder(gather);
  auto like = cast<CollectiveOpInterface>(gather.getOperation());
  auto whole = AllGatherOp::create(
      builder, gather.getLoc(), gather.getType(), gather.getInput(),
      like.getUnitAttr().getValue(), *like.getRegion(), state.getMapped(),
      /*ranks=*/0, like.getMeshAxes());
  remarkPassed(R::GatheredBucket, gather.getLoc())
      << (state.getMapped() ? "a flat parameter is mapped"
                            : "a flat parameter is gathered")
      << metrics::Unit(whole.getUnit().str())
      << metrics::Region(stringifyProgramRegion(whole.getRegion()).str())
      << metrics::State(state.getSymName().str())
      << metrics::BytesPerRank(
             getTensorBytes(getTensorType(gather.getInput())));
  gather.replaceAllUsesWith(whole.getResult());
  gather.erase();
}

void BucketCollectives::convertFlat(GradientReduction reduction) {
  // The sum over replicas stays where it is, behind what is added before it.
  OpBuilder builder(reduction.getFirst());
  auto accumulate = [&](Value sum) {
    builder.setInsertionPoint(reduction.getSum());
    return reduction.addTo(sum);
  };
  bool divides = bool(reduction.division);
  remarkPassed(R::ReducedBucket, reduction.getFirst()->getLoc())
      << "a flat gradient" << metrics::Unit(reduction.getUnit().str())
      << metrics::Bytes(getTensorBytes(getTensorType(reduction.getInput())))
      << metrics::Divisor(
             divides ? getDivisor(reduction.getUnit(), reduction.getInput())
                     : 1);
  reduction.replaceWith(
      createReduction(builder, reduction, divides, reduction.getInput(),
                      getTensorType(reduction.getResult()), accumulate));
}

/// The first op that reads what a gather gives.
Operation *getFirstReader(Operation *gather) {
  Operation *first = nullptr;
  for (Operation *user : gather->getUsers())
    if (Operation *reader = gather->getBlock()->findAncestorOpInBlock(*user);
        reader && (!first || reader->isBeforeInBlock(first)))
      first = reader;
  return first ? first : gather;
}

BucketMember getMember(shard::AllGatherOp op,
                       const BucketSizes::Compute &compute) {
  Operation *reader = getFirstReader(op);
  return {cast<CollectiveOpInterface>(op.getOperation()).getUnitAttr(),
          getTensorBytes(getTensorType(op.getResult())), reader,
          compute.before.lookup(reader)};
}

BucketMember getMember(GradientReduction reduction,
                       const BucketSizes::Compute &compute) {
  Operation *op = reduction.getFirst();
  return {reduction.getUnit(),
          getTensorBytes(getTensorType(reduction.getInput())), op,
          compute.all - compute.before.lookup(op)};
}

LogicalResult BucketCollectives::checkNames(Operation &op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective || isa<StartableOpInterface>(op))
    return success();
  if (!collective.getUnitAttr())
    return op.emitOpError("names no fsdp.unit to be bucketed with; run "
                          "--fsdp-shard first");
  if (collective.getRole() == CollectiveRole::Parameter &&
      !collective.getRegion())
    return op.emitOpError("names no fsdp.region to be bucketed with; run "
                          "--fsdp-shard first");
  return success();
}

LogicalResult BucketCollectives::bucket(Block &block,
                                        const BucketSizes &sizes) {
  llvm::MapVector<ProgramRegion, SmallVector<shard::AllGatherOp>> gathers;
  SmallVector<shard::AllGatherOp> flatGathers;
  SmallVector<GradientReduction> reductions, flatReductions;
  for (Operation &op : block) {
    if (failed(checkNames(op)))
      return failure();
    if (auto gather = dyn_cast<shard::AllGatherOp>(op)) {
      if (getFlat(gather))
        flatGathers.push_back(gather);
      else
        gathers[*cast<CollectiveOpInterface>(op).getRegion()].push_back(gather);
    } else if (std::optional<GradientReduction> reduction =
                   GradientReduction::startingWith(&op, *means)) {
      if (reduction->getInput().getDefiningOp<PackOp>())
        flatReductions.push_back(*reduction);
      else
        reductions.push_back(*reduction);
    }
  }
  for (shard::AllGatherOp gather : flatGathers)
    convertFlat(gather, getFlat(gather));
  for (GradientReduction reduction : flatReductions)
    convertFlat(reduction);

  // What is alike in the key is one bucket.
  BucketSizes::Compute compute = sizes.getCompute(block);
  auto group = [&](auto &ops, StringRef what, auto getKey) {
    using Op = std::decay_t<decltype(ops.front())>;
    SmallVector<BucketMember> members;
    for (Op op : ops)
      members.push_back(getMember(op, compute));
    llvm::MapVector<std::tuple<Attribute, Type, unsigned>, SmallVector<Op>>
        groups;
    for (auto [op, member, bucket] :
         llvm::zip_equal(ops, members, sizes.assign(members, what)))
      groups[{member.unit, getKey(op), bucket}].push_back(op);
    return groups;
  };
  for (auto &[region, ops] : gathers)
    for (auto &[key, members] : group(ops, stringifyProgramRegion(region),
                                      [](Operation *) { return Type(); }))
      bucketGathers(members);
  for (auto &[key, members] :
       group(reductions, "gradients", [](GradientReduction reduction) {
         return getTensorType(reduction.getResult()).getElementType();
       }))
    bucketReductions(members);
  return success();
}

} // namespace
