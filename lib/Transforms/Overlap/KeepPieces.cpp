// fsdp-keep-pieces.

#include "Remarks.h"

#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_KEEPPIECES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A gather with what goes into its bucket and comes out of it. A flat
/// parameter is a bucket of itself.
struct Bucket {
  AllGatherOp gather;
  UnpackOp unpack; // null: it is flat

  explicit Bucket(AllGatherOp gather) : gather(gather) {
    if (gather->hasOneUse())
      unpack = dyn_cast<UnpackOp>(*gather->user_begin());
  }
  SmallVector<Value> getInputs() {
    auto pack = gather.getInput().getDefiningOp<PackOp>();
    return pack ? SmallVector<Value>(pack.getInputs())
                : SmallVector<Value>{gather.getInput()};
  }
  SmallVector<Value> getOutputs() {
    return unpack ? SmallVector<Value>(unpack.getOutputs())
                  : SmallVector<Value>{gather.getResult()};
  }
};

/// What tells a member of a bucket: its state, and what that is cast to.
using MemberKey = std::pair<StringAttr, Type>;

MemberKey getKey(Value input) {
  LoadOp load = getGatheredLoad(input);
  return {load ? load.getStateAttr().getAttr() : StringAttr(), input.getType()};
}

/// A member of a bucket of forward that backward reads, and as what.
struct Read {
  size_t member;
  Value output; // of backward's own gather
};

class KeepPieces : public fsdp::impl::KeepPiecesBase<KeepPieces> {
  void runOnModule() override {
    for (UnitOp unit : getOperation().getOps<UnitOp>()) {
      if (!unit.getReshardRanks())
        continue;
      for (func::FuncOp program : getPrograms(getOperation())) {
        for (Block &block : program.getBody())
          keep(block, unit);
        // What backward's own gathers were made of.
        eraseDeadOps(program);
      }
    }
  }

  void keep(Block &block, UnitOp unit);
  void gatherKept(Bucket &whole, SmallVector<Read> reads, int64_t ranks);
};

void KeepPieces::keep(Block &block, UnitOp unit) {
  SmallVector<Bucket> forward, backward;
  for (auto gather : block.getOps<AllGatherOp>())
    if (gather.getUnit() == unit.getUnitName() && !gather.getMapped())
      (gather.getRegion() == ProgramRegion::Forward ? forward : backward)
          .push_back(Bucket(gather));
  llvm::DenseMap<MemberKey, std::pair<size_t, size_t>> places;
  for (auto [i, bucket] : llvm::enumerate(forward))
    for (auto [member, input] : llvm::enumerate(bucket.getInputs()))
      places[getKey(input)] = {i, member};

  llvm::MapVector<size_t, SmallVector<Read>> reads; // by forward's bucket
  for (Bucket &bucket : backward) {
    SmallVector<Value> inputs = bucket.getInputs();
    if (!llvm::all_of(inputs, [&](Value input) {
          return getKey(input).first && places.contains(getKey(input));
        })) {
      remarkMissed(R::KeptPieces, bucket.gather.getLoc())
          << "unit \"" + unit.getUnitName().str() +
                 "\": backward reads what forward does not gather";
      continue;
    }
    for (auto [input, output] : llvm::zip_equal(inputs, bucket.getOutputs())) {
      auto [i, member] = places.lookup(getKey(input));
      reads[i].push_back({member, output});
    }
  }
  for (auto &[i, ofBucket] : reads)
    gatherKept(forward[i], ofBucket, *unit.getReshardRanks());
}

/// The first op of the block that reads one of them.
Operation *getFirstReader(Block &block, ArrayRef<Read> reads) {
  Operation *first = nullptr;
  for (const Read &read : reads)
    for (Operation *user : read.output.getUsers()) {
      Operation *reader = block.findAncestorOpInBlock(*user);
      if (!first || reader->isBeforeInBlock(first))
        first = reader;
    }
  return first;
}

/// Gathers a bucket of forward again, from what neighbours keep of it, for what
/// backward reads.
void KeepPieces::gatherKept(Bucket &whole, SmallVector<Read> reads,
                            int64_t ranks) {
  llvm::sort(reads, [](Read a, Read b) { return a.member < b.member; });
  Operation *reader = getFirstReader(*whole.gather->getBlock(), reads);
  if (!reader)
    return;
  auto type = cast<RankedTensorType>(whole.gather.getType());
  auto part = RankedTensorType::get({type.getNumElements() / ranks},
                                    type.getElementType());
  Location loc = whole.gather.getLoc();
  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(whole.gather);
  auto kept =
      KeepOp::create(builder, loc, part, whole.gather.getResult(), ranks);
  builder.setInsertionPoint(reader);
  auto gathered = AllGatherOp::create(
      builder, loc, type, kept.getResult(), whole.gather.getUnit(),
      ProgramRegion::Backward, /*mapped=*/false, ranks, whole.gather.getAxes());
  SmallVector<Value> outputs{gathered.getResult()};
  if (whole.unpack) {
    SmallVector<Type> types;
    SmallVector<Attribute> members;
    for (const Read &read : reads) {
      types.push_back(read.output.getType());
      members.push_back(whole.unpack.getMembers()[read.member]);
    }
    outputs = SmallVector<Value>(UnpackOp::create(builder, loc, types,
                                                  gathered.getResult(),
                                                  builder.getArrayAttr(members))
                                     .getOutputs());
  }
  for (auto [read, output] : llvm::zip_equal(reads, outputs))
    read.output.replaceAllUsesWith(output);
  remarkPassed(R::KeptPieces, loc)
      << "backward gathers what neighbours keep"
      << metrics::Unit(whole.gather.getUnit().str())
      << metrics::BytesPerRank(getTensorBytes(part))
      << metrics::Neighbours(ranks);
}

} // namespace
