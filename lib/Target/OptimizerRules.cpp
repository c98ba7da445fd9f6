// Optimizers as functions.
//
// Op for op what torch.optim's `_single_tensor_*` functions do (not
// capturable), in their order; step scalars in double, as Python computes
// them. On the CPU `foreach` runs the same kernels on one tensor after the
// other, with the same scalars, so it has the same bits.
//
// `fused` is a kernel of its own: Adam's is called, since its square root is
// not `sqrt`'s; SGD's has the bits of the for-loop. Both kernels treat the
// last elements of a slice, where those do not fill a vector, in scalar code
// that rounds otherwise. Rules do not: they are pointwise (docs/parity.md).

#include "OptimizerRules.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/FusedOptimizer.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fsdp;

namespace {
/// Writes the body of a rule: `x = op(x, …)` where PyTorch has `x.op_(…)`.
class RuleBuilder {
public:
  RuleBuilder(OpBuilder &builder, Location loc, unsigned group)
      : builder(builder), loc(loc), group(group) {}

  //===--- step scalars ---------------------------------------------------===//
  Value constant(double value) {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF64FloatAttr(value));
  }
  Value learningRate() {
    return LearningRateOp::create(builder, loc, builder.getF64Type(), group);
  }
  Value step() {
    return StepCountOp::create(builder, loc, builder.getF64Type());
  }
  Value sub(Value a, Value b) {
    return arith::SubFOp::create(builder, loc, a, b);
  }
  Value mul(Value a, Value b) {
    return arith::MulFOp::create(builder, loc, a, b);
  }
  Value div(Value a, Value b) {
    return arith::DivFOp::create(builder, loc, a, b);
  }
  Value neg(Value a) { return arith::NegFOp::create(builder, loc, a); }
  Value pow(Value a, Value b) {
    return math::PowFOp::create(builder, loc, a, b);
  }
  /// `first` in step 1, `later` after it.
  Value firstStep(double first, double later) {
    Value isFirst = arith::CmpFOp::create(
        builder, loc, arith::CmpFPredicate::OEQ, step(), constant(1.0));
    return arith::SelectOp::create(builder, loc, isFirst, constant(first),
                                   constant(later));
  }

  //===--- tensors --------------------------------------------------------===//
  Value call(StringRef callee, ValueRange operands,
             ArrayRef<NamedAttribute> attributes = {}) {
    return aten::CallOp::create(builder, loc, callee, operands, attributes,
                                TypeRange(operands.front().getType()))
        ->getResult(0);
  }
  /// A call whose last scalar is a constant.
  Value call(StringRef callee, ValueRange operands, StringRef name,
             double value) {
    return call(callee, operands,
                builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
  }

  SmallVector<Value> buildSGD(const GroupInfo &options, ValueRange operands);
  SmallVector<Value> buildFusedAdam(const GroupInfo &options, bool decoupled,
                                    ValueRange operands);
  SmallVector<Value> buildAdam(const GroupInfo &options, bool decoupled,
                               ValueRange operands);

private:
  OpBuilder &builder;
  Location loc;
  unsigned group;
};
} // namespace

/// torch/optim/sgd.py, _single_tensor_sgd.
SmallVector<Value> RuleBuilder::buildSGD(const GroupInfo &options,
                                         ValueRange operands) {
  Value param = operands[0], grad = operands[1];
  SmallVector<Value> results;
  if (options.maximize)
    grad = call("neg", grad);
  if (options.weightDecay != 0)
    grad = call("add.Tensor", {grad, param}, "alpha", options.weightDecay);
  if (options.momentum != 0) {
    Value buffer = operands[2];
    // The first step takes the gradient itself. The buffer is 0 then, and
    // 0 * -1 + grad is grad in every bit, also where grad is -0.
    buffer = call("mul.Scalar", {buffer, firstStep(-1.0, options.momentum)});
    buffer = call("add.Tensor",
                  {buffer, grad, firstStep(1.0, 1.0 - options.dampening)});
    grad = options.nesterov
               ? call("add.Tensor", {grad, buffer}, "alpha", options.momentum)
               : buffer;
    results.push_back(buffer);
  }
  param = call("add.Tensor", {param, grad, neg(learningRate())});
  results.insert(results.begin(), param);
  return results;
}

/// torch/optim/adam.py, _single_tensor_adam; `decoupled` is AdamW.
SmallVector<Value> RuleBuilder::buildAdam(const GroupInfo &options,
                                          bool decoupled, ValueRange operands) {
  Value param = operands[0], grad = operands[1];
  Value expAvg = operands[2], expAvgSq = operands[3];
  if (options.maximize)
    grad = call("neg", grad);
  if (options.weightDecay != 0) {
    if (decoupled) {
      Value decay = mul(learningRate(), constant(options.weightDecay));
      param = call("mul.Scalar", {param, sub(constant(1.0), decay)});
    } else {
      grad = call("add.Tensor", {grad, param}, "alpha", options.weightDecay);
    }
  }
  expAvg = call("lerp.Scalar", {expAvg, grad}, "weight", 1.0 - options.beta1);
  expAvgSq = call("mul.Scalar", expAvgSq, "other", options.beta2);
  expAvgSq =
      call("addcmul", {expAvgSq, grad, grad}, "value", 1.0 - options.beta2);

  auto biasCorrection = [&](double beta) {
    return sub(constant(1.0), pow(constant(beta), step()));
  };
  Value stepSize = div(learningRate(), biasCorrection(options.beta1));
  Value biasCorrection2Sqrt = pow(biasCorrection(options.beta2), constant(0.5));

  SmallVector<Value> results = {expAvg, expAvgSq};
  Value secondMoment = expAvgSq;
  if (options.amsgrad) {
    secondMoment = call("maximum", {operands[4], expAvgSq});
    results.push_back(secondMoment);
  }
  Value denominator = call("sqrt", secondMoment);
  denominator = call("div.Scalar", {denominator, biasCorrection2Sqrt});
  denominator = call("add.Scalar", denominator, "other", options.eps);
  param = call("addcdiv", {param, expAvg, denominator, neg(stepSize)});
  results.insert(results.begin(), param);
  return results;
}

/// torch/optim/adam.py, _fused_adam: one kernel for lists, here of one member.
SmallVector<Value> RuleBuilder::buildFusedAdam(const GroupInfo &options,
                                               bool decoupled,
                                               ValueRange operands) {
  auto number = [&](StringRef name, double value) {
    return builder.getNamedAttr(name, builder.getF64FloatAttr(value));
  };
  auto flag = [&](StringRef name, bool value) {
    return builder.getNamedAttr(name, builder.getBoolAttr(value));
  };
  NamedAttribute args[] = {number("beta1", options.beta1),
                           number("beta2", options.beta2),
                           number("weight_decay", options.weightDecay),
                           number("eps", options.eps),
                           flag("amsgrad", options.amsgrad),
                           flag("maximize", options.maximize)};
  Value count = step(), rate = learningRate();
  return aten::createFusedOptimizer(builder, loc,
                                    decoupled ? "_fused_adamw" : "_fused_adam",
                                    operands, count, rate, args);
}

std::vector<std::string> fsdp::getStateNames(const OptimizerInfo &optimizer,
                                             const GroupInfo &group) {
  if (optimizer.rule == "sgd") {
    if (group.momentum == 0)
      return {};
    return {"momentum_buffer"};
  }
  if (group.amsgrad)
    return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  return {"exp_avg", "exp_avg_sq"};
}

func::FuncOp fsdp::buildRule(OpBuilder &builder, StringRef name,
                             const OptimizerInfo &optimizer, unsigned group,
                             Type elementType) {
  const GroupInfo &options = optimizer.groups[group];
  size_t states = getStateNames(optimizer, options).size();
  Type tensor = UnrankedTensorType::get(elementType);
  SmallVector<Type> operands(2 + states, tensor), results(1 + states, tensor);

  Location loc = NameLoc::get(builder.getStringAttr(name));
  auto rule = func::FuncOp::create(builder, loc, name,
                                   builder.getFunctionType(operands, results));
  rule.setPrivate();
  rule->setAttr("fsdp.rule", builder.getUnitAttr());

  OpBuilder::InsertionGuard guard(builder);
  Block *body = rule.addEntryBlock();
  builder.setInsertionPointToStart(body);
  RuleBuilder writer(builder, loc, group);
  bool fused = optimizer.implementation == "fused";
  bool decoupled = optimizer.rule == "adamw";
  ValueRange arguments = body->getArguments();
  SmallVector<Value> values =
      optimizer.rule == "sgd" ? writer.buildSGD(options, arguments)
      : fused ? writer.buildFusedAdam(options, decoupled, arguments)
              : writer.buildAdam(options, decoupled, arguments);
  func::ReturnOp::create(builder, loc, values);
  return rule;
}
