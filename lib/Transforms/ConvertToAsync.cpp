// fsdp-convert-to-async.

#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace fsdp {
#define GEN_PASS_DEF_CONVERTTOASYNC
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class ConvertToAsync : public fsdp::impl::ConvertToAsyncBase<ConvertToAsync> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      int64_t count = fetchBuckets(program);
      program.walk([&](Operation *op) {
        OpBuilder builder(op);
        Value future;
        if (auto gather = dyn_cast<AllGatherOp>(op))
          future = AllGatherStartOp::create(
              builder, op->getLoc(), getFutureType(gather.getResult()),
              gather.getInput(), gather.getUnitAttr(), gather.getRegionAttr(),
              gather.getMappedAttr(), gather.getRanksAttr());
        else if (auto reduction = dyn_cast<ReduceScatterOp>(op))
          future = ReduceScatterStartOp::create(
              builder, op->getLoc(), getFutureType(reduction.getResult()),
              reduction.getInput(), reduction.getUnitAttr(),
              reduction.getDivisorAttr());
        else if (auto reduction = dyn_cast<AllReduceOp>(op))
          future = AllReduceStartOp::create(
              builder, op->getLoc(), getFutureType(reduction.getResult()),
              reduction.getOpAttr(), reduction.getInput(),
              reduction.getUnitAttr(), reduction.getMeshDimAttr(),
              reduction.getDivisorAttr());
        else if (auto fetch = dyn_cast<FetchOp>(op))
          future = FetchStartOp::create(
              builder, op->getLoc(), getFutureType(fetch.getResult()),
              fetch.getInput(), /*members=*/nullptr, fetch.getUnitAttr(),
              fetch.getRegionAttr());
        else if (auto offload = dyn_cast<OffloadOp>(op))
          future = OffloadStartOp::create(
              builder, op->getLoc(), getFutureType(offload.getResult()),
              offload.getInput(), offload.getUnitAttr());
        else
          return;
        auto wait = WaitOp::create(builder, op->getLoc(),
                                   op->getResult(0).getType(), future);
        op->replaceAllUsesWith(wait);
        op->erase();
        ++count;
      });
      remark::passed(program.getLoc(), remark::RemarkOpts::name("async")
                                           .category("fsdp-convert-to-async")
                                           .function(program.getSymName()))
          << std::to_string(count) +
                 " collectives and copies start and are waited for";
    }
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
          pack.getMembersAttr(), fetch.getUnitAttr(), fetch.getRegionAttr());
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

  static FutureType getFutureType(Value value) {
    return FutureType::get(cast<RankedTensorType>(value.getType()));
  }
};

} // namespace
