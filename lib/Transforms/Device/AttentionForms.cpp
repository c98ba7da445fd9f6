// Attention of the same value on operands that more kernels take.
//
// Each form is the CPU's calls again, so that they follow one upon the other.

#include "Device/AttentionForms.h"
#include "KernelCalls.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

static constexpr StringRef kForward =
    "_scaled_dot_product_flash_attention_for_cpu";
static constexpr StringRef kBackward =
    "_scaled_dot_product_flash_attention_for_cpu_backward";

Value fsdp::getTensor(aten::CallOp call, StringRef name) {
  for (const aten::CallArgument &given : call.getCallArguments())
    if (given.argument->name == name &&
        given.kind == aten::CallArgument::Kind::Value)
      return call->getOperand(given.operands.front());
  return {};
}

std::optional<Attention> Attention::match(aten::CallOp call) {
  if (call.getCallee() != kForward)
    return std::nullopt;
  Attention attention;
  attention.forward = call;
  attention.query = getTensor(call, "query");
  attention.key = getTensor(call, "key");
  attention.value = getTensor(call, "value");
  attention.mask = getTensor(call, "attn_mask");
  if (auto causal = dyn_cast_or_null<BoolAttr>(call.getArg("is_causal")))
    attention.isCausal = causal.getValue();
  attention.scale = call.getArg("scale");
  for (Operation *reader : call->getResult(1).getUsers())
    if (auto other = dyn_cast<aten::CallOp>(reader))
      if (other.getCallee() == kBackward)
        attention.backward.push_back(other);
  return attention;
}

namespace {

/// What becomes of the values between an attention and the rest.
struct Border {
  /// Of queries, keys and values.
  function_ref<Value(KernelCalls &, Value)> enterQuery, enterKey;
  /// Of the result; its gradient enters as a query does.
  function_ref<Value(KernelCalls &, Value, Type)> leaveQuery, leaveKey;
};

} // namespace

/// Type of a result or gradient of `like`, [batch, heads, length, size]: as it
/// was, or in another shape with the heads inside, as kernels give it.
static Type getTypeLike(Value like, Type before) {
  auto type = cast<RankedTensorType>(like.getType());
  ArrayRef<int64_t> shape = type.getShape();
  if (cast<RankedTensorType>(before).getShape() == shape)
    return before;
  int64_t row = shape[1] * shape[3];
  return aten::getTensorType(shape, type.getElementType(),
                             {shape[2] * row, shape[3], row, 1});
}

/// A copy of one of the CPU's calls, with other tensors in front of the rest;
/// its first results are like `results`.
static aten::CallOp rebuild(KernelCalls &calls, aten::CallOp old,
                            ValueRange operands, ValueRange results,
                            Attribute scale) {
  auto call = cast<aten::CallOp>(calls.builder.clone(*old));
  for (auto [i, operand] : llvm::enumerate(operands))
    call->setOperand(i, operand);
  for (auto [result, like] : llvm::zip(call->getResults(), results))
    result.setType(getTypeLike(like, result.getType()));
  if (scale) {
    NamedAttrList args(call.getArgs());
    args.set("scale", scale);
    call.setArgsAttr(args.getDictionary(call.getContext()));
  }
  return call;
}

static void rewrite(Attention &attention, const Border &border) {
  KernelCalls calls(attention.forward);
  Value query = border.enterQuery(calls, attention.query);
  Value key = border.enterKey(calls, attention.key);
  Value value = border.enterKey(calls, attention.value);
  aten::CallOp forward = rebuild(calls, attention.forward, {query, key, value},
                                 query, attention.scale);
  SmallVector<aten::CallOp, 1> backward;
  for (aten::CallOp old : attention.backward) {
    KernelCalls calls(old);
    Value gradient = border.enterQuery(calls, getTensor(old, "grad_out"));
    backward.push_back(rebuild(calls, old,
                               {gradient, query, key, value,
                                forward->getResult(0), forward->getResult(1)},
                               {query, key, value}, attention.scale));
    for (auto [i, result] : llvm::enumerate(backward.back()->getResults()))
      old->getResult(i).replaceAllUsesWith(
          (i == 0 ? border.leaveQuery : border.leaveKey)(
              calls, result, old->getResult(i).getType()));
    old->erase();
  }
  Value result = attention.forward->getResult(0);
  result.replaceAllUsesWith(
      border.leaveQuery(calls, forward->getResult(0), result.getType()));
  attention.forward->erase();
  attention.forward = forward;
  attention.backward = backward;
  attention.query = query;
  attention.key = key;
  attention.value = value;
}

void fsdp::padHeads(Attention &attention, int64_t multiple) {
  int64_t size = attention.getQueryType().getShape().back();
  int64_t padded = (size + multiple - 1) / multiple * multiple;
  if (padded == size)
    return;
  if (!attention.scale)
    attention.scale =
        FloatAttr::get(Float64Type::get(attention.forward.getContext()),
                       1 / std::sqrt(double(size)));
  auto enter = [&](KernelCalls &calls, Value value) {
    return calls.resizeRows(value, padded);
  };
  auto leave = [&](KernelCalls &calls, Value value, Type wanted) {
    return calls.resizeRows(value, size, wanted);
  };
  rewrite(attention, {enter, enter, leave, leave});
}

void fsdp::repeatHeads(Attention &attention) {
  int64_t heads = attention.getQueryType().getDimSize(1);
  if (attention.getKeyType().getDimSize(1) == heads)
    return;
  rewrite(attention, {[](KernelCalls &, Value value) { return value; },
                      [&](KernelCalls &calls, Value value) {
                        return calls.repeatHeads(value, heads);
                      },
                      [](KernelCalls &, Value value, Type) { return value; },
                      [](KernelCalls &calls, Value value, Type wanted) {
                        return calls.sumHeads(value, wanted);
                      }});
}
