// Optimizer rules as one kernel.
//
// A rule is read from its results backwards, as lib/Target/OptimizerRules.cpp
// has written it. What is not as expected, anywhere, is no known optimizer.

#include "Device/FusedRules.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/FusedOptimizer.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// The call of `callee` that gives `value`, where its tensors are `tensors`: a
/// null one may be any.
aten::CallOp getCall(Value value, StringRef callee, ArrayRef<Value> tensors) {
  auto call = value.getDefiningOp<aten::CallOp>();
  if (!call || call.getCallee() != callee ||
      call->getNumOperands() < tensors.size())
    return {};
  for (auto [given, wanted] : llvm::zip(call->getOperands(), tensors))
    if (wanted && given != wanted)
      return {};
  return call;
}

/// A floating-point argument, or nothing.
std::optional<double> getNumber(aten::CallOp call, StringRef name) {
  auto number = dyn_cast_or_null<FloatAttr>(call.getArg(name));
  return number ? std::optional(number.getValueAsDouble()) : std::nullopt;
}

/// Whether the call's last operand is a scalar like this.
template <typename Pattern>
bool takes(aten::CallOp call, const Pattern &pattern) {
  Value last = call->getOperands().back();
  return last.getType().isF64() && matchPattern(last, pattern);
}

auto m_Rate() { return m_Op<LearningRateOp>(); }
/// 1 - beta ^ step
auto m_Correction(FloatAttr *beta) {
  return m_Op<arith::SubFOp>(
      m_OneFloat(), m_Op<math::PowFOp>(m_Constant(beta), m_Op<StepCountOp>()));
}
/// `first` in the first step, then `later`.
auto m_FirstStep(FloatAttr *first, FloatAttr *later) {
  return m_Op<arith::SelectOp>(
      m_Op<arith::CmpFOp>(m_Op<StepCountOp>(), m_OneFloat()), m_Constant(first),
      m_Constant(later));
}

class RuleReader {
public:
  explicit RuleReader(func::FuncOp rule)
      : rule(rule), builder(rule.getContext()), operands(rule.getArguments()),
        results(rule.getBody().front().getTerminator()->getOperands()) {}

  /// The name of the fused kernel, or nothing.
  StringRef read() {
    if (results.size() + 1 != operands.size())
      return "";
    if (operands.size() <= 3)
      return readSGD() ? "_fused_sgd" : "";
    return readAdam() ? (decoupled ? "_fused_adamw" : "_fused_adam") : "";
  }
  ArrayRef<NamedAttribute> getArgs() const { return args; }

private:
  void number(StringRef name, double value) {
    args.push_back(builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
  }
  void flag(StringRef name, bool value) {
    args.push_back(builder.getNamedAttr(name, builder.getBoolAttr(value)));
  }

  /// The gradient as the rule sees it: negated, with decay added, or neither.
  bool readGradient(Value gradient) {
    if (auto add = getCall(gradient, "add.Tensor", {Value(), operands[0]});
        add && add->getNumOperands() == 2) {
      decay = getNumber(add, "alpha").value_or(1.0);
      gradient = add->getOperand(0);
    }
    bool maximize = bool(getCall(gradient, "neg", {operands[1]}));
    flag("maximize", maximize);
    return maximize || gradient == operands[1];
  }

  bool readAdam() {
    FloatAttr beta1, beta2, half, decayed;
    auto update =
        getCall(results[0], "addcdiv", {Value(), results[1], Value()});
    if (!update || update->getNumOperands() != 4 ||
        !takes(update, m_Op<arith::NegFOp>(m_Op<arith::DivFOp>(
                           m_Rate(), m_Correction(&beta1)))))
      return false;

    // The denominator: sqrt(second moment) / sqrt(its correction) + eps.
    auto denominator = getCall(update->getOperand(2), "add.Scalar", {Value()});
    auto quotient = denominator ? getCall(denominator->getOperand(0),
                                          "div.Scalar", {Value()})
                                : aten::CallOp();
    if (!quotient || !takes(quotient, m_Op<math::PowFOp>(m_Correction(&beta2),
                                                         m_Constant(&half))))
      return false;
    bool amsgrad = operands.size() == 5;
    Value moment = amsgrad ? results[3] : results[2];
    std::optional<double> eps = getNumber(denominator, "other");
    if (!eps || half.getValueAsDouble() != 0.5 ||
        !getCall(quotient->getOperand(0), "sqrt", {moment}) ||
        (amsgrad && !getCall(moment, "maximum", {operands[4], results[2]})))
      return false;

    // The moments.
    auto first = getCall(results[1], "lerp.Scalar", {operands[2], Value()});
    if (!first)
      return false;
    Value gradient = first->getOperand(1);
    auto second = getCall(results[2], "addcmul", {Value(), gradient, gradient});
    auto kept =
        second ? getCall(second->getOperand(0), "mul.Scalar", {operands[3]})
               : aten::CallOp();
    double b1 = beta1.getValueAsDouble(), b2 = beta2.getValueAsDouble();
    if (!kept || getNumber(first, "weight") != 1.0 - b1 ||
        getNumber(second, "value") != 1.0 - b2 ||
        getNumber(kept, "other") != b2 || !readGradient(gradient))
      return false;

    // Decay of the parameter itself, by the rate.
    if (Value parameter = update->getOperand(0); parameter != operands[0]) {
      auto shrunk = getCall(parameter, "mul.Scalar", {operands[0]});
      if (!shrunk || decay != 0 ||
          !takes(shrunk,
                 m_Op<arith::SubFOp>(
                     m_OneFloat(),
                     m_Op<arith::MulFOp>(m_Rate(), m_Constant(&decayed)))))
        return false;
      decay = decayed.getValueAsDouble();
      decoupled = true;
    }
    number("beta1", b1);
    number("beta2", b2);
    number("weight_decay", decay);
    number("eps", *eps);
    flag("amsgrad", amsgrad);
    return true;
  }

  bool readSGD() {
    auto update = getCall(results[0], "add.Tensor", {operands[0], Value()});
    if (!update || !takes(update, m_Op<arith::NegFOp>(m_Rate())))
      return false;
    Value gradient = update->getOperand(1);
    double momentum = 0;
    bool nesterov = false;
    if (operands.size() == 3) {
      FloatAttr minusOne, kept, one, undamped;
      auto buffer = getCall(results[1], "add.Tensor", {Value(), Value()});
      if (!buffer || !takes(buffer, m_FirstStep(&one, &undamped)) ||
          one.getValueAsDouble() != 1.0 || undamped.getValueAsDouble() != 1.0)
        return false;
      auto old = getCall(buffer->getOperand(0), "mul.Scalar", {operands[2]});
      if (!old || !takes(old, m_FirstStep(&minusOne, &kept)))
        return false;
      momentum = kept.getValueAsDouble();
      nesterov = gradient != results[1];
      if (nesterov) {
        auto ahead = getCall(gradient, "add.Tensor",
                             {buffer->getOperand(1), results[1]});
        if (!ahead || getNumber(ahead, "alpha") != momentum)
          return false;
      }
      gradient = buffer->getOperand(1);
    }
    if (!readGradient(gradient))
      return false;
    number("weight_decay", decay);
    number("momentum", momentum);
    number("dampening", 0);
    flag("nesterov", nesterov);
    // Buffers are zero in the first step, so that it is like all others.
    flag("is_first_step", false);
    return true;
  }

  func::FuncOp rule;
  Builder builder;
  SmallVector<Value> operands, results;
  SmallVector<NamedAttribute> args;
  double decay = 0;
  bool decoupled = false; // decay is of the parameter, not of the gradient
};

} // namespace

StringRef fsdp::fuseRule(func::FuncOp rule) {
  std::optional<int64_t> group;
  bool oneGroup = true;
  rule.walk([&](LearningRateOp rate) {
    oneGroup &= group.value_or(rate.getGroup()) == int64_t(rate.getGroup());
    group = rate.getGroup();
  });
  auto type = dyn_cast<TensorType>(rule.getArgument(0).getType());
  RuleReader reader(rule);
  if (!group || !oneGroup || !type || !isa<FloatType>(type.getElementType()))
    return "";
  StringRef callee = reader.read();
  if (callee.empty())
    return "";
  Operation *end = rule.getBody().front().getTerminator();
  OpBuilder builder(end);
  Location loc = rule.getLoc();
  Type f64 = builder.getF64Type();
  Value rate = LearningRateOp::create(builder, loc, f64, *group);
  Value step = StepCountOp::create(builder, loc, f64);
  end->setOperands(aten::createFusedOptimizer(
      builder, loc, callee, rule.getArguments(), step, rate, reader.getArgs()));
  eraseDeadOps(rule);
  return callee;
}
