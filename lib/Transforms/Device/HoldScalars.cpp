// fsdp-hold-scalars.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/OperatorSchema.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

namespace fsdp {
#define GEN_PASS_DEF_HOLDSCALARS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// What takes a tensor in place of a number.
struct TensorForm {
  StringRef callee, argument;
  StringRef taking; // the overload whose argument there is a tensor; or
  int factorOf = 0; // without one, the operand that the number is a factor of
  bool isRate = false; // it is read in f32, whatever the parameter is
};

constexpr TensorForm kForms[] = {
    {"add.Scalar", "other", "add.Tensor"},
    {"sub.Scalar", "other", "sub.Tensor"},
    {"mul.Scalar", "other", "mul.Tensor"},
    {"div.Scalar", "other", "div.Tensor"},
    {"rsub.Scalar", "other", "rsub.Tensor"},
    {"eq.Scalar", "other", "eq.Tensor"},
    {"ne.Scalar", "other", "ne.Tensor"},
    {"lt.Scalar", "other", "lt.Tensor"},
    {"le.Scalar", "other", "le.Tensor"},
    {"gt.Scalar", "other", "gt.Tensor"},
    {"ge.Scalar", "other", "ge.Tensor"},
    {"masked_fill.Scalar", "value", "masked_fill.Tensor"},
    {"pow.Scalar", "self", "pow.Tensor_Tensor"},
    {"pow.Tensor_Scalar", "exponent", "pow.Tensor_Tensor"},
    {"lerp.Scalar", "weight", "lerp.Tensor"},
    {"add.Tensor", "alpha", "", 1},
    {"sub.Tensor", "alpha", "", 1},
    {"addcmul", "value", "", 1},
    {"addcdiv", "value", "", 1},
    {"_fused_adam", "lr", "_fused_adam.tensor_lr", 0, true},
    {"_fused_adamw", "lr", "_fused_adamw.tensor_lr", 0, true},
    {"_fused_sgd", "lr", "_fused_sgd.tensor_lr", 0, true},
};

/// Where numbers become tensors.
constexpr StringLiteral kHold = "scalar_tensor";

bool isNarrow(Type element) { return element.isF16() || element.isBF16(); }

/// The numbers of one function in its device's memory.
class Holder {
public:
  explicit Holder(func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  LogicalResult run() {
    SmallVector<aten::CallOp> calls(
        function.getBody().front().getOps<aten::CallOp>());
    for (aten::CallOp call : calls)
      if (failed(convert(call)))
        return failure();
    eraseDeadOps(function);
    return success();
  }

private:
  LogicalResult convert(aten::CallOp call);
  void replaceNumber(aten::CallOp call, unsigned operand,
                     const TensorForm &form);
  Value hold(Value number, Type element, aten::CallOp reader);
  Value compute(Value number, aten::CallOp reader);

  Value create(aten::CallOp like, StringRef callee, ValueRange operands,
               Type result, ArrayRef<NamedAttribute> args = {}) {
    return aten::CallOp::create(builder, like.getLoc(), like.getDirection(),
                                callee, operands, args, TypeRange(result))
        ->getResult(0);
  }
  Value cast(Value tensor, Type element, aten::CallOp like) {
    auto type = llvm::cast<TensorType>(tensor.getType());
    return create(like, "_to_copy", tensor, type.clone(element),
                  builder.getNamedAttr("dtype", TypeAttr::get(element)));
  }

  func::FuncOp function;
  OpBuilder builder;
  llvm::DenseMap<std::pair<Value, Type>, Value> held;
  llvm::DenseMap<Value, bool> onDevice;

  /// Whether a number follows from one that lies in a state.
  bool followsState(Value number) {
    Operation *op = number.getDefiningOp();
    auto [known, isNew] = onDevice.try_emplace(number, false);
    if (!isNew)
      return known->second;
    bool follows = isa<StateValueOp>(op) ||
                   llvm::any_of(op->getOperands(),
                                [&](Value v) { return followsState(v); });
    return onDevice[number] = follows;
  }
  bool isComputed(Value number) {
    return followsState(number) && !number.getDefiningOp<StateValueOp>();
  }
};

/// A number as a tensor, made where the number is.
Value Holder::hold(Value number, Type element, aten::CallOp reader) {
  if (Value known = held.lookup({number, element}))
    return known;
  // What a tensor holds is in memory already.
  if (auto type = dyn_cast<TensorType>(number.getType()))
    return type.getElementType() == element ? number
                                            : cast(number, element, reader);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(number);
  Value tensor;
  if (isComputed(number)) {
    tensor = compute(number, reader);
    if (!element.isF64())
      tensor = cast(tensor, element, reader);
  } else {
    tensor = create(reader, kHold, number, RankedTensorType::get({}, element),
                    builder.getNamedAttr("dtype", TypeAttr::get(element)));
  }
  return held[{number, element}] = tensor;
}

/// What follows from a state's number is computed where that lies, so that
/// nothing waits for it.
Value Holder::compute(Value number, aten::CallOp reader) {
  Operation *op = number.getDefiningOp();
  Type f64 = builder.getF64Type();
  auto type = RankedTensorType::get({}, f64);
  auto operand = [&](Value v) { return hold(v, f64, reader); };
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
    StringRef callee =
        compare.getPredicate() == arith::CmpFPredicate::OEQ   ? "eq.Tensor"
        : compare.getPredicate() == arith::CmpFPredicate::OLT ? "lt.Tensor"
                                                              : "le.Tensor";
    Value holds = create(reader, callee,
                         {operand(compare.getLhs()), operand(compare.getRhs())},
                         RankedTensorType::get({}, builder.getI1Type()));
    return create(reader, "where.self",
                  {holds, operand(select.getTrueValue()),
                   operand(select.getFalseValue())},
                  type);
  }
  if (auto widened = dyn_cast<arith::ExtFOp>(op)) {
    auto narrow = widened.getIn().getDefiningOp<arith::TruncFOp>();
    return cast(cast(operand(narrow.getIn()), narrow.getType(), reader), f64,
                reader);
  }
  StringRef callee =
      llvm::TypeSwitch<Operation *, StringRef>(op)
          .Case<arith::AddFOp>([](auto) { return "add.Tensor"; })
          .Case<arith::SubFOp>([](auto) { return "sub.Tensor"; })
          .Case<arith::MulFOp>([](auto) { return "mul.Tensor"; })
          .Case<arith::DivFOp>([](auto) { return "div.Tensor"; })
          .Case<math::PowFOp>([](auto) { return "pow.Tensor_Tensor"; })
          .Case<math::SqrtOp>([](auto) { return "sqrt"; })
          .Case<math::ExpOp>([](auto) { return "exp"; })
          .Case<math::LogOp>([](auto) { return "log"; })
          .Case<math::CosOp>([](auto) { return "cos"; })
          .Default([](Operation *) { return "neg"; });
  SmallVector<Value> operands(llvm::map_range(op->getOperands(), operand));
  return create(reader, callee, operands, type);
}

static LogicalResult refuse(aten::CallOp call, StringRef argument) {
  InFlightDiagnostic error =
      call.emitOpError("is given a number that changes between steps as its "
                       "argument '")
      << argument
      << "'; on GPUs such numbers are in memory, and no overload of it takes a "
         "tensor there";
  if (plan::isFusedOptimizer(call.getQualifiedName().first))
    error << "; give the optimizer fused=False";
  return error;
}

void Holder::replaceNumber(aten::CallOp call, unsigned operand,
                           const TensorForm &form) {
  builder.setInsertionPoint(call);
  Value number = call->getOperand(operand);
  if (form.isRate) {
    call.setCallee(form.taking);
    call->setOperand(operand, hold(number, builder.getF32Type(), call));
    return;
  }
  // A number of f16 or bf16 would be rounded to that before it is used.
  bool takes = !form.taking.empty();
  SmallVector<Value> operands(call->getOperands());
  Type element;
  for (auto [i, value] : llvm::enumerate(operands))
    if (auto type = dyn_cast<TensorType>(value.getType());
        type && i != operand) {
      element = type.getElementType();
      if (isNarrow(element))
        value = cast(value, builder.getF32Type(), call);
    }
  Type wide = isNarrow(element) ? builder.getF32Type() : element;
  Value tensor = hold(number, wide, call);
  if (takes) {
    operands[operand] = tensor;
  } else {
    operands.erase(operands.begin() + operand);
    Value &scaled = operands[form.factorOf];
    scaled = create(call, "mul.Tensor", {scaled, tensor}, scaled.getType());
  }
  auto type = llvm::cast<TensorType>(call->getResult(0).getType());
  auto now = aten::CallOp::create(
      builder, call.getLoc(), call.getDirection(),
      takes ? form.taking : form.callee, operands, call.getArgs().getValue(),
      TypeRange(isNarrow(type.getElementType()) ? type.clone(wide) : type));
  now.takePlaceOf(call);
  Value result = now->getResult(0);
  if (result.getType() != type)
    result = cast(result, type.getElementType(), call);
  call->getResult(0).replaceAllUsesWith(result);
  call.erase();
}

LogicalResult Holder::convert(aten::CallOp call) {
  const TensorForm *form = nullptr; // none of these takes two numbers
  unsigned operand = 0;
  for (const aten::CallArgument &given : call.getCallArguments()) {
    bool isItem = given.kind == aten::CallArgument::Kind::Value &&
                  !given.argument->type.isTensor();
    if (given.kind != aten::CallArgument::Kind::Scalar && !isItem)
      continue;
    operand = given.operands.front();
    if (call.getCallee() == kHold) {
      Value number = call->getOperand(0), result = call->getResult(0);
      if (isComputed(number))
        result.replaceAllUsesWith(
            hold(number, getElementTypeOrSelf(result), call));
      return success();
    }
    form = llvm::find_if(kForms, [&](const TensorForm &form) {
      return form.callee == call.getCallee() &&
             form.argument == given.argument->name;
    });
    if (form == std::end(kForms))
      return refuse(call, given.argument->name);
  }
  if (form)
    replaceNumber(call, operand, *form);
  return success();
}

class HoldScalars : public fsdp::impl::HoldScalarsBase<HoldScalars> {
  void runOnModule() override {
    ModuleOp module = getOperation();
    if (!isForGpus(module))
      return;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isDeclaration() && failed(Holder(function).run()))
        return signalPassFailure();
  }
};

} // namespace
