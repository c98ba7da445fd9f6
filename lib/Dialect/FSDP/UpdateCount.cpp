// How often an optimizer's rule has updated its parameters.

#include "fsdp/Dialect/FSDP/UpdateCount.h"

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fsdp;

Value fsdp::createUpdateCount(OpBuilder &builder, Location loc,
                              FlatSymbolRefAttr missed) {
  Type f64 = builder.getF64Type();
  Value steps = StepCountOp::create(builder, loc, f64);
  if (!missed)
    return steps;
  Value without = StateValueOp::create(builder, loc, f64, missed);
  return arith::SubFOp::create(builder, loc, steps, without);
}
