// Attention that was captured as matrix products.
//
// The form is one function of PyTorch's, _scaled_dot_product_attention_math:
//
//   softmax((q * s) @ (k^T * s) + mask), dropped and divided, @ v
//
// with s^2 the scale; f16 and bf16 are computed in f32. Each product is a bmm
// of what its operands are with batch and heads as one dimension.

#include "Device/MathAttention.h"
#include "KernelCalls.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

namespace {

/// The first operand of the call of this name that gives `value`, or null.
Value strip(Value value, StringRef callee) {
  auto call = getCall(value, callee);
  return call ? call->getOperand(0) : Value();
}

ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// What a bmm's operand is before batch and heads became one dimension.
Value unfold(Value folded) {
  Value value = strip(folded, "view");
  if (!value)
    value = strip(folded, "_unsafe_view");
  if (Value copied = strip(value, "clone"))
    value = copied;
  if (Value same = strip(value, "expand"))
    if (getShape(same) == getShape(value))
      value = same;
  return value && getShape(value).size() == 4 ? value : Value();
}

/// The only result of a reader of `value` that `fits`; null where there are
/// more such readers, or none.
Value findReader(Value value, function_ref<bool(aten::CallOp)> fits) {
  Value found;
  for (Operation *reader : value.getUsers()) {
    auto call = dyn_cast<aten::CallOp>(reader);
    if (!call || !fits(call))
      continue;
    if (found)
      return {};
    found = call->getResult(0);
  }
  return found;
}
Value findReader(Value value, StringRef callee) {
  return value ? findReader(value,
                            [&](aten::CallOp call) {
                              return call.getCallee() == callee;
                            })
               : Value();
}
/// The only product of which `value` is this operand.
Value findProduct(Value value, unsigned operand) {
  return value ? findReader(value,
                            [&](aten::CallOp call) {
                              return call.getCallee() == "bmm" &&
                                     call->getOperand(operand) == value;
                            })
               : Value();
}

double getFloat(aten::CallOp call, StringRef name) {
  auto number = dyn_cast_or_null<FloatAttr>(call.getArg(name));
  return number ? number.getValueAsDouble() : NAN;
}
int64_t getInteger(aten::CallOp call, StringRef name, int64_t otherwise) {
  auto number = dyn_cast_or_null<IntegerAttr>(call.getArg(name));
  return number ? number.getInt() : otherwise;
}

bool isConstant(Value value, double number) {
  auto call = getCall(value, "scalar_tensor");
  return call && call->getNumOperands() == 0 && getFloat(call, "s") == number;
}

/// Whether it is what PyTorch makes of is_causal: -inf above the diagonal.
bool isCausalMask(Value mask) {
  auto where = getCall(mask, "where.self");
  if (!where || !isConstant(where->getOperand(1), 0) ||
      !isConstant(where->getOperand(2), -INFINITY))
    return false;
  auto lower = getCall(where->getOperand(0), "tril");
  ArrayRef<int64_t> shape = getShape(mask);
  return lower && getInteger(lower, "diagonal", 0) == 0 && shape.size() == 2 &&
         shape[0] == shape[1] && getCall(lower->getOperand(0), "ones");
}

/// What was cast from f16 or bf16 to be computed with, or the value itself.
Value lookThroughCast(Value value) {
  Value narrow = strip(value, "_to_copy");
  Type element = narrow ? getElementTypeOrSelf(narrow) : Type();
  return element && (element.isF16() || element.isBF16()) ? narrow : value;
}

/// The gradient of `of`, which `found` is in f32 where that was cast.
Value getCast(Value found, Value of) {
  if (!found || getElementTypeOrSelf(found) == getElementTypeOrSelf(of))
    return found;
  return findReader(found, "_to_copy");
}

} // namespace

/// q, k, scale and mask.
bool MathAttention::readScores(Value scores) {
  if (auto add = getCall(scores, "add.Tensor");
      add && add->getNumOperands() == 2 && !add.getArg("alpha")) {
    attention.mask = add->getOperand(1);
    scores = add->getOperand(0);
  }
  auto product = getCall(strip(scores, "view"), "bmm");
  if (!product)
    return false;
  scaledQuery = product->getOperand(0);
  scaledKey = product->getOperand(1);
  auto query = getCall(unfold(scaledQuery), "mul.Scalar");
  auto key = getCall(unfold(scaledKey), "mul.Scalar");
  auto turned =
      key ? getCall(key->getOperand(0), "transpose.int") : aten::CallOp();
  if (!query || !turned || getInteger(turned, "dim0", 0) != -2 ||
      getInteger(turned, "dim1", 0) != -1 || query->getNumOperands() != 1)
    return false;
  double root = getFloat(query, "other");
  if (!(root > 0) || getFloat(key, "other") != root)
    return false;
  attention.query = lookThroughCast(query->getOperand(0));
  attention.key = lookThroughCast(turned->getOperand(0));
  if (attention.mask && isCausalMask(attention.mask)) {
    attention.mask = {};
    attention.isCausal = true;
  }
  int64_t size = attention.getQueryType().getShape().back();
  if (std::fabs(root * root * std::sqrt(double(size)) - 1) > 1e-6)
    attention.scale =
        FloatAttr::get(Float64Type::get(product->getContext()), root * root);
  return true;
}

/// From the softmax to what is multiplied with the values, `folded`: dropped,
/// with all that stay divided by their share, or the same.
bool MathAttention::readWeights(Value weights, Value *folded) {
  if (Value kept = findReader(weights, "mul.Tensor")) {
    aten::CallOp drop =
        getCall(kept.getDefiningOp()->getOperand(1), "bernoulli.p");
    weights = findReader(kept, "mul.Scalar");
    if (!drop || !weights)
      return false;
    double share = getFloat(drop, "p");
    attention.dropout = 1 - share;
    attention.generator =
        dyn_cast_or_null<aten::GeneratorAttr>(drop.getArg("generator"));
    double scale = getFloat(getCall(weights, "mul.Scalar"), "other");
    if (!attention.generator || !(std::fabs(scale * share - 1) < 1e-6))
      return false;
  }
  *folded = findReader(findReader(weights, "expand"), "view");
  return bool(*folded);
}

bool MathAttention::readBackward(Value folded, Value foldedValue) {
  auto turned = [](Value value) {
    return findReader(value, [](aten::CallOp call) {
      return call.getCallee() == "transpose.int" &&
             getInteger(call, "dim0", 0) == 1 &&
             getInteger(call, "dim1", 0) == 2;
    });
  };
  Value weights = turned(folded);
  if (!weights) // in eval
    return attention.forward->getResult(0).hasOneUse();

  // The gradients of both operands of the second product.
  Value ofValue = findProduct(weights, 0);
  Value ofWeights = findProduct(turned(foldedValue), 1);
  if (!ofValue || !ofWeights)
    return false;
  Value incoming = ofWeights.getDefiningOp()->getOperand(0);
  if (ofValue.getDefiningOp()->getOperand(1) != incoming)
    return false;
  Value unfolded = unfold(incoming);
  if (!unfolded)
    return false;
  gradient = unfolded;
  if (getElementTypeOrSelf(unfolded) != getElementTypeOrSelf(attention.query))
    gradient = lookThroughCast(unfolded);
  if (getElementTypeOrSelf(gradient) != getElementTypeOrSelf(attention.query))
    return false;
  // What reads the gradient first: all that backward does follows it.
  for (Value value = incoming; value != gradient;) {
    firstOfBackward = value.getDefiningOp<aten::CallOp>();
    value = firstOfBackward->getOperand(0);
  }

  // Through dropout and softmax, to the gradient of the scores.
  Value ofSoftmax = findReader(ofWeights, "view");
  if (attention.dropout != 0)
    ofSoftmax = findReader(ofSoftmax, "native_dropout_backward");
  Value ofScores = findReader(ofSoftmax, "_softmax_backward_data");
  Value product = findReader(ofScores, "view");
  if (!product && ofScores) // beside the mask's gradient, the folded one
    product = findReader(ofScores, [&](aten::CallOp call) {
      return call.getCallee() == "view" &&
             getShape(call->getResult(0)).size() == 3;
    });
  if (!product)
    return false;
  if (!ofScores.hasOneUse())
    attention.maskGradient = ofScores;
  Value ofKey = findProduct(turned(scaledQuery), 0);
  Value ofQuery = findProduct(turned(scaledKey), 1);
  if (!ofKey || !ofQuery || ofKey.getDefiningOp()->getOperand(1) != product ||
      ofQuery.getDefiningOp()->getOperand(0) != product)
    return false;
  ofQuery = findReader(findReader(ofQuery, "view"), "mul.Scalar");
  ofKey = findReader(findReader(findReader(ofKey, "view"), "mul.Scalar"),
                     "transpose.int");
  queryGradient = getCast(ofQuery, attention.query);
  keyGradient = getCast(ofKey, attention.key);
  valueGradient = getCast(findReader(ofValue, "view"), attention.value);
  return queryGradient && keyGradient && valueGradient;
}

bool MathAttention::isSoftmax(aten::CallOp call) {
  return call.getCallee() == "_safe_softmax";
}

std::optional<MathAttention> MathAttention::match(aten::CallOp softmax) {
  MathAttention math;
  Attention &attention = math.attention;
  attention.forward = softmax;
  Value folded;
  if (!isSoftmax(softmax) || getInteger(softmax, "dim", 0) != -1 ||
      !math.readScores(softmax->getOperand(0)) ||
      !math.readWeights(softmax->getResult(0), &folded))
    return std::nullopt;
  Value product = findProduct(folded, 0);
  if (!product)
    return std::nullopt;
  Value foldedValue = product.getDefiningOp()->getOperand(1);
  Value value = unfold(foldedValue);
  math.result = findReader(product, "view");
  if (!value || !math.result)
    return std::nullopt;
  attention.value = lookThroughCast(value);
  Type element = attention.getQueryType().getElementType();
  if (getElementTypeOrSelf(math.result) != element)
    math.result = findReader(math.result, "_to_copy");
  // One type, one head size, and as many heads, as the CPU's kernel has it.
  for (Value other : {attention.key, attention.value, math.result})
    if (!other || getElementTypeOrSelf(other) != element ||
        getShape(other).size() != 4 ||
        getShape(other)[1] != getShape(attention.query)[1] ||
        getShape(other)[3] != getShape(attention.query)[3])
      return std::nullopt;
  if (!math.readBackward(folded, foldedValue))
    return std::nullopt;
  return math;
}

Attention MathAttention::raise() {
  KernelCalls calls(result.getDefiningOp<aten::CallOp>());
  Value mask = attention.mask;
  SmallVector<NamedAttribute> args = {
      calls.boolean("is_causal", attention.isCausal),
      calls.named("dropout_p",
                  calls.builder.getF64FloatAttr(attention.dropout))};
  if (attention.scale)
    args.push_back(calls.named("scale", attention.scale));
  auto logsumexp =
      RankedTensorType::get(attention.getQueryType().getShape().drop_back(),
                            calls.builder.getF32Type());
  attention.forward =
      calls.create("_scaled_dot_product_flash_attention_for_cpu",
                   {attention.query, attention.key, attention.value, mask},
                   args, {result.getType(), logsumexp});
  result.replaceAllUsesWith(attention.forward->getResult(0));
  if (!gradient)
    return attention;

  KernelCalls back(firstOfBackward);
  aten::CallOp backward = back.create(
      "_scaled_dot_product_flash_attention_for_cpu_backward",
      {gradient, attention.query, attention.key, attention.value,
       attention.forward->getResult(0), attention.forward->getResult(1), mask},
      args,
      {queryGradient.getType(), keyGradient.getType(),
       valueGradient.getType()});
  queryGradient.replaceAllUsesWith(backward->getResult(0));
  keyGradient.replaceAllUsesWith(backward->getResult(1));
  valueGradient.replaceAllUsesWith(backward->getResult(2));
  attention.backward = {backward};
  return attention;
}
