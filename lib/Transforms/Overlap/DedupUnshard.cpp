// fsdp-dedup-unshard.

#include "Remarks.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_DEDUPUNSHARD
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class DedupUnshard : public fsdp::impl::DedupUnshardBase<DedupUnshard> {
  void runOnModule() override {
    SymbolTable table(getOperation());
    for (func::FuncOp program : getPrograms(getOperation()))
      for (Block &block : program.getBody())
        dedup(block, table);
  }

  void dedup(Block &block, const SymbolTable &table);
  void shareViews(Value whole);
};

/// Slices that drop the padding, views of a flat parameter's members, and what
/// puts together a tensor that is split on another dimension are the same for
/// all readers.
void DedupUnshard::shareViews(Value whole) {
  llvm::MapVector<std::pair<Attribute, Type>, SmallVector<aten::CallOp>> views;
  for (Operation *reader : whole.getUsers()) {
    auto view = dyn_cast<aten::CallOp>(reader);
    if (view && (view.isView() || view.getCallee() == "clone") &&
        view->getNumOperands() == 1 && view->getNumResults() == 1)
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
    shareViews(first->getResult(0));
  }
}

void DedupUnshard::dedup(Block &block, const SymbolTable &table) {
  // The first in the block dominates the others.
  llvm::MapVector<std::tuple<StringRef, Attribute, Type>,
                  std::pair<shard::AllGatherOp, int>>
      first;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto gather = dyn_cast<shard::AllGatherOp>(op);
    auto load = gather ? getGatheredLoad(gather.getInput()) : LoadOp();
    if (!load)
      continue;
    // What a mapped gather shows takes no memory, so no region lets go of it.
    auto state = table.lookup<StateOp>(load.getState());
    Attribute region =
        state && state.getMapped() ? Attribute() : kRegionAttr.get(gather);
    auto &[kept, readers] = first[{load.getState(), region, gather.getType()}];
    ++readers;
    if (!kept) {
      kept = gather;
      continue;
    }
    Operation *part = gather.getInput().getDefiningOp();
    gather.replaceAllUsesWith(kept.getResult());
    gather.erase();
    if (isOpTriviallyDead(part))
      part->erase();
  }
  for (auto &[key, value] : first) {
    auto [gather, readers] = value;
    shareViews(gather.getResult());
    if (readers > 1)
      remarkPassed(R::SharedGather, gather.getLoc())
          << "one gather for all readers" << metrics::State(std::get<0>(key))
          << metrics::Readers(readers);
  }
}

} // namespace
