// Buckets of gradients that go to the host.

#include "Overlap/BucketOffloads.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fsdp;

void fsdp::offloadTogether(MutableArrayRef<GradientReduction> reductions,
                           UnpackOp unpacked) {
  SmallVector<OffloadOp> offloads;
  bool alone = true;
  for (GradientReduction &reduction : reductions) {
    Value mean = reduction.getResult();
    auto users =
        llvm::make_filter_range(mean.getUsers(), llvm::IsaPred<OffloadOp>);
    if (users.empty())
      return;
    offloads.push_back(cast<OffloadOp>(*users.begin()));
    alone &= mean.hasOneUse();
  }
  OpBuilder builder(unpacked);
  Location loc = unpacked.getLoc();
  auto bucket =
      OffloadOp::create(builder, loc, unpacked.getBucket().getType(),
                        unpacked.getBucket(), offloads.front().getUnitAttr());
  UnpackOp onHost = unpacked;
  if (alone) {
    unpacked.getBucketMutable().assign(bucket);
  } else {
    builder.setInsertionPointAfter(unpacked);
    onHost = UnpackOp::create(builder, loc, unpacked.getResultTypes(), bucket,
                              unpacked.getMembers());
  }
  for (auto [offload, part] : llvm::zip_equal(offloads, onHost.getOutputs())) {
    OffloadOp(offload).getResult().replaceAllUsesWith(part);
    OffloadOp(offload).erase();
  }
}
