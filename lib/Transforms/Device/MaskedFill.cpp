// masked_fill with a value that a GPU holds.

#include "Device/MaskedFill.h"

#include "KernelCalls.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

static bool isRowMajor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && !type.getEncoding();
}

void fsdp::fillWithoutWaiting(aten::CallOp call) {
  if (call.getCallee() != "masked_fill.Tensor")
    return;
  Value input = call->getOperand(0), mask = call->getOperand(1),
        value = call->getOperand(2), filled = call->getResult(0);
  // torch.where gives the wider of two types, and strides of its own choice
  // where its operands' differ.
  if (getElementTypeOrSelf(value) != getElementTypeOrSelf(input) ||
      filled.getType() != input.getType() || !isRowMajor(input) ||
      !isRowMajor(mask))
    return;
  KernelCalls calls(call);
  call->replaceAllUsesWith(calls.create("where.self", {mask, value, input}, {},
                                        call->getResultTypes()));
  call->erase();
}
