// Results that are not of the same type on all devices.

#include "Device/DeviceResults.h"

using namespace mlir;
using namespace fsdp;

namespace {

using Change = RankedTensorType (*)(RankedTensorType type,
                                    RankedTensorType input);

/// Statistics are f32 where the input is f16 or bf16.
RankedTensorType widen(RankedTensorType type, RankedTensorType) {
  Type element = type.getElementType();
  return element.isF16() || element.isBF16()
             ? type.clone(Float32Type::get(type.getContext()))
             : type;
}

/// So they are, and there even where the running ones are used.
RankedTensorType widenChannels(RankedTensorType type, RankedTensorType input) {
  return RankedTensorType::get(input.getDimSize(1),
                               widen(type, input).getElementType());
}

RankedTensorType empty(RankedTensorType type, RankedTensorType) {
  return RankedTensorType::get(0, type.getElementType());
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
    {"_native_batch_norm_legit_functional", 1, widenChannels},
    {"_native_batch_norm_legit_functional", 2, widenChannels},
    {"log_sigmoid_forward", 1, empty},
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
    auto input = cast<RankedTensorType>(call->getOperand(0).getType());
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      if (RankedTensorType now = difference.change(type, input); now != type)
        retype(result, now);
  }
}
