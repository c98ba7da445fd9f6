// fsdp-dedup-unshard.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_DEDUPUNSHARD
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class DedupUnshard : public fsdp::impl::DedupUnshardBase<DedupUnshard> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Block &block : program.getBody())
        dedup(block);
  }

  void dedup(Block &block);
  void shareSlices(shard::AllGatherOp gather);
};

/// The slices that drop the padding are the same for all readers.
void DedupUnshard::shareSlices(shard::AllGatherOp gather) {
  SmallVector<aten::CallOp> slices;
  for (Operation &op : *gather->getBlock()) {
    auto slice = dyn_cast<aten::CallOp>(op);
    if (slice && slice.getCallee() == "slice.Tensor" &&
        slice->getOperand(0) == gather.getResult())
      slices.push_back(slice);
  }
  for (aten::CallOp slice : ArrayRef(slices).drop_front(slices.empty() ? 0 : 1))
    if (slice->getAttrDictionary() == slices.front()->getAttrDictionary() &&
        slice->getResultTypes() == slices.front()->getResultTypes()) {
      slice->replaceAllUsesWith(slices.front());
      slice->erase();
    }
}

void DedupUnshard::dedup(Block &block) {
  // The first in the block dominates the others.
  llvm::MapVector<std::pair<StringRef, Attribute>,
                  std::pair<shard::AllGatherOp, int>>
      first;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto gather = dyn_cast<shard::AllGatherOp>(op);
    auto load = gather ? gather.getInput().getDefiningOp<LoadOp>() : LoadOp();
    if (!load)
      continue;
    auto &[kept, readers] =
        first[{load.getState(), gather->getAttr("fsdp.region")}];
    ++readers;
    if (!kept) {
      kept = gather;
      continue;
    }
    gather.replaceAllUsesWith(kept.getResult());
    gather.erase();
  }
  for (auto &[key, value] : first) {
    auto [gather, readers] = value;
    shareSlices(gather);
    if (readers > 1)
      remark::passed(
          gather.getLoc(),
          remark::RemarkOpts::name("dedup").category("fsdp-dedup-unshard"))
          << "\"" + key.first.str() + "\": one gather for " +
                 std::to_string(readers) + " readers";
  }
}

} // namespace
