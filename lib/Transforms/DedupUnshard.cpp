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
    SymbolTable table(getOperation());
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Block &block : program.getBody())
        dedup(block, table);
  }

  void dedup(Block &block, const SymbolTable &table);
  void shareViews(shard::AllGatherOp gather);
};

/// Slices that drop the padding, and views of a flat parameter's members, are
/// the same for all readers.
void DedupUnshard::shareViews(shard::AllGatherOp gather) {
  llvm::MapVector<std::pair<Attribute, Type>, SmallVector<aten::CallOp>> views;
  for (Operation *reader : gather->getUsers()) {
    auto view = dyn_cast<aten::CallOp>(reader);
    if (view && view.isView() && view->getNumOperands() == 1 &&
        view->getNumResults() == 1)
      views[{view->getAttrDictionary(), view.getResult(0).getType()}].push_back(
          view);
  }
  for (auto &[key, same] : views) {
    auto first = *llvm::min_element(same, [](aten::CallOp a, aten::CallOp b) {
      return a->isBeforeInBlock(b);
    });
    for (aten::CallOp view : same)
      if (view != first) {
        view->replaceAllUsesWith(first);
        view->erase();
      }
  }
}

void DedupUnshard::dedup(Block &block, const SymbolTable &table) {
  // The first in the block dominates the others.
  llvm::MapVector<std::pair<StringRef, Attribute>,
                  std::pair<shard::AllGatherOp, int>>
      first;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto gather = dyn_cast<shard::AllGatherOp>(op);
    auto load = gather ? getSentLoad(gather.getInput()) : LoadOp();
    if (!load)
      continue;
    // What a mapped gather shows takes no memory, so no region lets go of it.
    auto state = table.lookup<StateOp>(load.getState());
    Attribute region = state && state.getMapped()
                           ? Attribute()
                           : gather->getAttr("fsdp.region");
    auto &[kept, readers] = first[{load.getState(), region}];
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
    shareViews(gather);
    if (readers > 1)
      remark::passed(
          gather.getLoc(),
          remark::RemarkOpts::name("dedup").category("fsdp-dedup-unshard"))
          << "\"" + key.first.str() + "\": one gather for " +
                 std::to_string(readers) + " readers";
  }
}

} // namespace
