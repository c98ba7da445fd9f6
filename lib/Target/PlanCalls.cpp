// Calls and step scalars of a plan.

#include "PlanCalls.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;
using plan::ArgumentKind;
using plan::ScalarKind;

// Step scalars

/// What a select by such a comparison is; nothing where a plan has none.
static std::optional<ScalarKind> getSelect(arith::CmpFPredicate predicate) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return ScalarKind::Select;
  case arith::CmpFPredicate::OLT:
    return ScalarKind::SelectLess;
  case arith::CmpFPredicate::OLE:
    return ScalarKind::SelectLessEqual;
  default:
    return std::nullopt;
  }
}

std::optional<int> ScalarTable::lookup(Value value) const {
  auto it = indices.find(value);
  return it == indices.end() ? std::nullopt : std::optional(it->second);
}

/// A step's numbers and those of its body are of one list, which is evaluated
/// once a step: the body's are then kept for the next one.
LogicalResult ScalarTable::addRecurrence(Operation *op) {
  auto recurrence = cast<RecurrenceOp>(op);
  Block &body = recurrence.getBody().front();
  size_t first = scalars.size();
  for (auto [initial, former, result] :
       llvm::zip(recurrence.getInitial(), body.getArguments(),
                 recurrence.getNumbers())) {
    std::optional<int> index = lookup(initial);
    if (!index)
      return op->emitOpError("begins with a number that is not a step scalar");
    indices[former] = indices[result] = scalars.size();
    scalars.push_back(std::make_unique<plan::ScalarT>());
    scalars.back()->kind = ScalarKind::Former;
    scalars.back()->b = *index;
  }
  for (Operation &inner : body.without_terminator())
    if (failed(add(&inner)))
      return failure();
  for (auto [i, next] : llvm::enumerate(body.getTerminator()->getOperands())) {
    std::optional<int> index = lookup(next);
    if (!index)
      return op->emitOpError("yields a number that is not a step scalar");
    scalars[first + i]->a = *index;
  }
  return success();
}

LogicalResult ScalarTable::add(Operation *op) {
  if (isa<RecurrenceOp>(op))
    return addRecurrence(op);
  // A comparison is part of the select that reads it.
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    if (getSelect(compare.getPredicate()) && compare.getLhs().getType().isF64())
      return success();
  // A number of less precision is one rounded and widened again.
  if (auto round = dyn_cast<arith::TruncFOp>(op))
    if (round.getType().isF32() && round.getIn().getType().isF64())
      return success();
  auto kind =
      llvm::TypeSwitch<Operation *, std::optional<ScalarKind>>(op)
          .Case<arith::ConstantOp>([](auto) { return ScalarKind::Constant; })
          .Case<HyperparameterOp>(
              [](auto) { return ScalarKind::Hyperparameter; })
          .Case<StepCountOp>([](auto) { return ScalarKind::Step; })
          .Case<RankOp>([](auto) { return ScalarKind::Rank; })
          .Case<StateValueOp>([](auto) { return ScalarKind::State; })
          .Case<arith::AddFOp>([](auto) { return ScalarKind::Add; })
          .Case<arith::SubFOp>([](auto) { return ScalarKind::Subtract; })
          .Case<arith::MulFOp>([](auto) { return ScalarKind::Multiply; })
          .Case<arith::DivFOp>([](auto) { return ScalarKind::Divide; })
          .Case<math::PowFOp>([](auto) { return ScalarKind::Power; })
          .Case<arith::NegFOp>([](auto) { return ScalarKind::Negate; })
          .Case<math::SqrtOp>([](auto) { return ScalarKind::SquareRoot; })
          .Case<math::ExpOp>([](auto) { return ScalarKind::Exponential; })
          .Case<math::LogOp>([](auto) { return ScalarKind::Logarithm; })
          .Case<math::CosOp>([](auto) { return ScalarKind::Cosine; })
          .Case<arith::ExtFOp>([](auto) { return ScalarKind::Round; })
          .Case([](arith::SelectOp select) -> std::optional<ScalarKind> {
            auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
            return compare ? getSelect(compare.getPredicate()) : std::nullopt;
          })
          .Default([](Operation *) -> std::optional<ScalarKind> {
            return std::nullopt;
          });
  if (!kind || op->getNumResults() != 1 || !op->getResult(0).getType().isF64())
    return op->emitOpError(
        "is not a step scalar that a plan can evaluate; "
        "those are f64 constant, addf, subf, mulf, divf, "
        "negf, powf, sqrt, exp, log, cos, extf of a truncf to f32, and "
        "select of cmpf oeq, olt or ole");
  auto scalar = std::make_unique<plan::ScalarT>();
  scalar->kind = *kind;
  SmallVector<Value> operands(op->getOperands());
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    scalar->value = cast<FloatAttr>(constant.getValue()).getValueAsDouble();
  } else if (auto number = dyn_cast<HyperparameterOp>(op)) {
    auto it =
        symbols.hyperparameters.find({number.getName(), number.getGroup()});
    if (it == symbols.hyperparameters.end())
      return op->emitOpError("is none of the hyperparameters of fsdp.training");
    scalar->hyperparameter = it->second;
  } else if (auto value = dyn_cast<StateValueOp>(op)) {
    auto it = symbols.states.find(value.getState());
    if (it == symbols.states.end())
      return op->emitOpError("names a state that does not exist");
    scalar->state = it->second;
  } else if (auto select = dyn_cast<arith::SelectOp>(op)) {
    auto compare = select.getCondition().getDefiningOp<arith::CmpFOp>();
    operands = {compare.getLhs(), compare.getRhs(), select.getTrueValue(),
                select.getFalseValue()};
  } else if (isa<arith::ExtFOp>(op)) {
    auto round = operands[0].getDefiningOp<arith::TruncFOp>();
    if (!round)
      return op->emitOpError("widens something else than a truncf");
    operands = {round.getIn()};
  }
  int *const slots[] = {&scalar->a, &scalar->b, &scalar->c, &scalar->d};
  for (auto [slot, operand] : llvm::zip(slots, operands)) {
    std::optional<int> index = lookup(operand);
    if (!index)
      return op->emitOpError("reads a number that is not a step scalar");
    *slot = *index;
  }
  indices[op->getResult(0)] = scalars.size();
  scalars.push_back(std::move(scalar));
  return success();
}

// Calls

/// Sets `out` to a constant; fails on one that a plan cannot hold.
static LogicalResult exportConstant(Attribute attr, plan::ArgumentT &out) {
  auto set = [&](ArgumentKind kind) {
    out.kind = kind;
    return success();
  };
  return llvm::TypeSwitch<Attribute, LogicalResult>(attr)
      .Case<UnitAttr>([&](auto) { return set(ArgumentKind::None); })
      .Case<BoolAttr>([&](BoolAttr value) {
        out.i = value.getValue();
        return set(ArgumentKind::Bool);
      })
      .Case<IntegerAttr>([&](IntegerAttr value) {
        out.i = value.getInt();
        return set(ArgumentKind::Int);
      })
      .Case<FloatAttr>([&](FloatAttr value) {
        out.d = value.getValueAsDouble();
        return set(ArgumentKind::Double);
      })
      .Case<DenseI64ArrayAttr>([&](DenseI64ArrayAttr list) {
        out.ints.assign(list.asArrayRef().begin(), list.asArrayRef().end());
        return set(ArgumentKind::IntList);
      })
      .Case<DenseF64ArrayAttr>([&](DenseF64ArrayAttr list) {
        out.doubles.assign(list.asArrayRef().begin(), list.asArrayRef().end());
        return set(ArgumentKind::DoubleList);
      })
      .Case<DenseBoolArrayAttr>([&](DenseBoolArrayAttr list) {
        out.ints.assign(list.asArrayRef().begin(), list.asArrayRef().end());
        return set(ArgumentKind::BoolList);
      })
      .Case<StringAttr>([&](StringAttr text) {
        out.s = text.str();
        return set(ArgumentKind::String);
      })
      .Case<TypeAttr>([&](TypeAttr type) -> LogicalResult {
        std::optional<plan::DType> dtype = getDType(type.getValue());
        if (!dtype)
          return failure();
        out.i = static_cast<int64_t>(*dtype);
        return set(ArgumentKind::DType);
      })
      .Case<aten::GeneratorAttr>([&](aten::GeneratorAttr generator) {
        out.i = generator.getSite();
        return set(ArgumentKind::Generator);
      })
      .Case<ArrayAttr>([&](ArrayAttr parts) -> LogicalResult {
        for (Attribute part : parts) {
          auto number = dyn_cast<FloatAttr>(part);
          if (!number || parts.size() != 2)
            return failure();
          out.doubles.push_back(number.getValueAsDouble());
        }
        return set(ArgumentKind::Complex);
      })
      .Default([](Attribute) { return failure(); });
}

std::unique_ptr<plan::ValueT> fsdp::exportTensor(RankedTensorType type,
                                                 plan::DType dtype) {
  auto exported = std::make_unique<plan::ValueT>();
  exported->dtype = dtype;
  exported->shape.assign(type.getShape().begin(), type.getShape().end());
  auto strides = aten::getStrides(type);
  exported->strides.assign(strides.begin(), strides.end());
  return exported;
}

std::unique_ptr<plan::InputT> fsdp::exportInput(func::FuncOp program,
                                                unsigned argument, int value) {
  auto input = std::make_unique<plan::InputT>();
  if (auto name = kInputAttr.getOfArgument(program, argument))
    input->name = name.str();
  input->value = value;
  input->from_data = !kRepeatAttr.getOfArgument(program, argument);
  return input;
}

FailureOr<std::unique_ptr<plan::AtenT>>
fsdp::exportCall(Operation *op, StringRef callee, ValueRange inputs,
                 ArrayRef<int32_t> slots, DictionaryAttr args,
                 const DenseMap<Value, int> &values,
                 const ScalarTable &scalars) {
  const aten::Schema *schema = aten::lookup(callee);
  if (!schema)
    return op->emitOpError("PyTorch has no operator \"") << callee << "\"";
  auto bound = aten::bindArguments(*schema, inputs.getTypes(), slots, args,
                                   [&] { return op->emitOpError(); });
  if (failed(bound))
    return failure();

  auto call = std::make_unique<plan::AtenT>();
  call->name = schema->name.str();
  call->overload = schema->overload.str();
  for (const aten::CallArgument &given : *bound) {
    using Kind = aten::CallArgument::Kind;
    auto out = std::make_unique<plan::ArgumentT>();
    auto value = [&](int64_t operand) {
      return operand < 0 ? -1 : values.lookup(inputs[operand]);
    };
    switch (given.kind) {
    case Kind::Default:
      break;
    case Kind::None:
      out->kind = ArgumentKind::None;
      break;
    case Kind::Value:
      out->kind = ArgumentKind::Value;
      out->value = value(given.operands.front());
      break;
    case Kind::ValueList:
      out->kind = ArgumentKind::ValueList;
      for (int64_t operand : given.operands)
        out->values.push_back(value(operand));
      break;
    case Kind::Scalar: {
      std::optional<int> index = scalars.lookup(inputs[given.operands.front()]);
      if (!index)
        return op->emitOpError("argument '")
               << given.argument->name << "' is not an f64 step scalar";
      out->kind = ArgumentKind::Scalar;
      out->value = *index;
      break;
    }
    case Kind::Attribute:
      if (failed(exportConstant(given.attribute, *out)))
        return op->emitOpError("argument '")
               << given.argument->name << "' is " << given.attribute
               << ", which a plan cannot hold";
      break;
    }
    call->arguments.push_back(std::move(out));
  }
  return call;
}
