// Calls of PyTorch's fused optimizers.

#include "fsdp/Dialect/Aten/FusedOptimizer.h"

#include "fsdp/Dialect/Aten/Aten.h"

using namespace mlir;
using namespace fsdp;

SmallVector<Value> aten::createFusedOptimizer(OpBuilder &builder, Location loc,
                                              StringRef callee,
                                              ValueRange tensors, Value step,
                                              Value rate,
                                              ArrayRef<NamedAttribute> args) {
  SmallVector<Value> inputs(tensors);
  SmallVector<int32_t> slots;
  size_t taken = 0;
  for (const Argument &argument : lookup(callee)->arguments) {
    if (!argument.type.isTensor() || !argument.type.list)
      continue;
    bool counts = argument.name == "state_steps";
    size_t members = counts || taken < tensors.size() ? 1 : 0;
    slots.push_back(2 + members);
    slots.append(members, 1);
    if (!counts) {
      taken += members;
      continue;
    }
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(step);
    Type f32 = builder.getF32Type();
    inputs.push_back(
        CallOp::create(builder, loc, Direction::Forward, "scalar_tensor",
                       ValueRange(step),
                       builder.getNamedAttr("dtype", TypeAttr::get(f32)),
                       TypeRange(RankedTensorType::get({}, f32)))
            ->getResult(0));
  }
  slots.push_back(1);
  inputs.push_back(rate);
  auto call =
      CallOp::create(builder, loc, Direction::Forward, callee, inputs, slots,
                     builder.getDictionaryAttr(args), tensors.getTypes());
  SmallVector<Value> results(call->getResults());
  results.erase(results.begin() + 1); // the gradients
  return results;
}
