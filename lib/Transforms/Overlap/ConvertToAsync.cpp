// fsdp-convert-to-async.

#include "Remarks.h"

#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"

namespace fsdp {
#define GEN_PASS_DEF_CONVERTTOASYNC
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class ConvertToAsync : public fsdp::impl::ConvertToAsyncBase<ConvertToAsync> {
  void runOnModule() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      int64_t count = fetchBuckets(program) + storeStaged(program);
      program.walk([&](StartableOpInterface op) {
        start(op);
        ++count;
      });
      remarkPassed(R::AsyncOps, program.getLoc(), program.getSymName())
          << "they start and are waited for" << metrics::Started(count);
    }
  }

  /// The start form, of the same operands and attributes, and a wait.
  static void start(StartableOpInterface op) {
    OpBuilder builder(op);
    Location loc = op->getLoc();
    Value result = op->getResult(0);
    OperationState state(loc, op.getStartName(), op->getOperands(),
                         {getFutureType(result)},
                         op->getAttrDictionary().getValue());
    Operation *start = builder.create(state);
    auto wait =
        WaitOp::create(builder, loc, result.getType(), start->getResult(0));
    op->replaceAllUsesWith(wait);
    auto collective = dyn_cast<CollectiveOpInterface>(op.getOperation());
    if (collective && (collective.isForUpdates() ||
                       collective.getRole() == CollectiveRole::Step))
      waitLate(wait);
    op->erase();
  }

  static void waitLate(WaitOp wait) {
    Operation *first = nullptr;
    for (Operation *reader : wait->getUsers())
      if (!first || reader->isBeforeInBlock(first))
        first = reader;
    if (first && first->getBlock() == wait->getBlock())
      wait->moveBefore(first);
  }

  /// A pack of what is fetched for it alone is a fetch into the bucket.
  static int64_t fetchBuckets(func::FuncOp program) {
    int64_t count = 0;
    program.walk([&](PackOp pack) {
      SmallVector<Value> sources;
      FetchOp fetch;
      for (Value input : pack.getInputs()) {
        fetch = input.getDefiningOp<FetchOp>();
        if (!fetch || !fetch->hasOneUse())
          return;
        sources.push_back(fetch.getInput());
      }
      if (!fetch)
        return;
      OpBuilder builder(pack);
      auto start = FetchStartOp::create(
          builder, pack.getLoc(), getFutureType(pack.getBucket()), sources,
          pack.getMembersAttr(), fetch.getUnitAttr(), fetch.getRegionAttr(),
          /*into=*/nullptr);
      SmallVector<Value> inputs(pack.getInputs());
      pack.replaceAllUsesWith(
          WaitOp::create(builder, pack.getLoc(), pack.getType(), start)
              .getResult());
      pack.erase();
      for (Value input : inputs)
        input.getDefiningOp()->erase();
      ++count;
    });
    return count;
  }

  /// What updates of staged parameters give is copied to where these are.
  static int64_t storeStaged(func::FuncOp program) {
    int64_t count = 0;
    for (StoreOp store :
         llvm::make_early_inc_range(program.getOps<StoreOp>())) {
      if (!store.getValue().getDefiningOp<UpdateOp>())
        continue;
      auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
          store, store.getStateAttr());
      OpBuilder builder(store);
      Location loc = store.getLoc();
      FutureType type = getFutureType(store.getValue());
      Value future;
      if (state.getOnHost())
        future =
            OffloadStartOp::create(builder, loc, type, store.getValue(),
                                   state.getUnitAttr(), store.getStateAttr());
      else
        future = FetchStartOp::create(
            builder, loc, type, store.getValue(),
            /*members=*/nullptr, state.getUnitAttr(),
            ProgramRegionAttr::get(builder.getContext(), ProgramRegion::Update),
            store.getStateAttr());
      WaitOp::create(builder, loc, type.getType(), future);
      store.erase();
      ++count;
    }
    return count;
  }

  static FutureType getFutureType(Value value) {
    return FutureType::get(cast<RankedTensorType>(value.getType()));
  }
};

} // namespace
