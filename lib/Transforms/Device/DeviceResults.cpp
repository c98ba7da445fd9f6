// Results that are not of the same type on all devices.

#include "Device/DeviceResults.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// From a result's type to that on a GPU.
using Change = RankedTensorType (*)(RankedTensorType type, aten::CallOp call);

RankedTensorType getOperandType(aten::CallOp call, unsigned index) {
  return cast<RankedTensorType>(call->getOperand(index).getType());
}

/// Statistics are f32 where the input is f16 or bf16.
RankedTensorType widen(RankedTensorType type, aten::CallOp) {
  Type element = type.getElementType();
  return element.isF16() || element.isBF16()
             ? type.clone(Float32Type::get(type.getContext()))
             : type;
}

/// So they are, and there even where the running ones are used.
RankedTensorType widenChannels(RankedTensorType type, aten::CallOp call) {
  return RankedTensorType::get(getOperandType(call, 0).getDimSize(1),
                               widen(type, call).getElementType());
}

RankedTensorType empty(RankedTensorType type, aten::CallOp) {
  return RankedTensorType::get(0, type.getElementType());
}

/// Of each index, the bag that it is in: kept in every mode.
RankedTensorType takeIndices(RankedTensorType, aten::CallOp call) {
  return getOperandType(call, 1);
}

/// The bags' sizes, of as many as there are offsets, the last one included.
RankedTensorType takeOffsets(RankedTensorType, aten::CallOp call) {
  return getOperandType(call, 2);
}

/// Where the largest elements are is kept where they are asked for: a matrix.
RankedTensorType keepLargest(RankedTensorType type, aten::CallOp call) {
  return type.getRank() == 1 ? empty(type, call) : type;
}

struct Difference {
  StringRef callee;
  unsigned result;
  Change change;
};

// What PyTorch's fake tensors of the two devices show for its operator samples.
constexpr Difference kDifferences[] = {
    {"native_layer_norm", 1, widen},
    {"native_layer_norm", 2, widen},
    {"native_batch_norm", 1, widenChannels},
    {"native_batch_norm", 2, widenChannels},
    {"_native_batch_norm_legit", 1, widenChannels},
    {"_native_batch_norm_legit", 2, widenChannels},
    {"_native_batch_norm_legit.no_stats", 1, widenChannels},
    {"_native_batch_norm_legit.no_stats", 2, widenChannels},
    {"_native_batch_norm_legit_no_training", 1, widenChannels},
    {"_native_batch_norm_legit_no_training", 2, widenChannels},
    {"_native_batch_norm_legit_functional", 1, widenChannels},
    {"_native_batch_norm_legit_functional", 2, widenChannels},
    {"log_sigmoid_forward", 1, empty},
    {"_embedding_bag", 1, takeIndices},
    {"_embedding_bag", 2, takeOffsets},
    {"_embedding_bag", 3, keepLargest},
    {"_embedding_bag_forward_only", 1, takeIndices},
    {"_embedding_bag_forward_only", 2, takeOffsets},
    {"_embedding_bag_forward_only", 3, keepLargest},
};

void retype(Value value, Type type) {
  Type before = value.getType();
  value.setType(type);
  for (Operation *reader : value.getUsers())
    if (auto view = dyn_cast<aten::CallOp>(reader); view && view.isView())
      for (Value result : view->getResults())
        if (result.getType() == before)
          retype(result, type);
}

} // namespace

void fsdp::retypeForGpu(aten::CallOp call) {
  for (const Difference &difference : kDifferences) {
    if (difference.callee != call.getCallee())
      continue;
    Value result = call->getResult(difference.result);
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      if (RankedTensorType now = difference.change(type, call); now != type)
        retype(result, now);
  }
}
