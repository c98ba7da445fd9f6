// Numbers over all gradients of a program.

#include "Shard/GradientNorms.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

SmallVector<UpdateOp> fsdp::getUpdates(func::FuncOp program) {
  return SmallVector<UpdateOp>(program.getOps<UpdateOp>());
}

/// The grid's axes that the parameter's sharding uses.
static SmallVector<int64_t> getAxes(StateOp parameter) {
  SmallVector<int64_t> axes;
  if (auto sharding = parameter.getSharding())
    for (DenseI16ArrayAttr dim : sharding->getSplitAxes().getAxes())
      axes.append(dim.asArrayRef().begin(), dim.asArrayRef().end());
  return axes;
}

FailureOr<Gradients> Gradients::collect(ArrayRef<UpdateOp> updates) {
  Gradients gradients;
  bool ownGradients = false;
  auto module = updates.front()->getParentOfType<ModuleOp>();
  SymbolTable table(module);
  for (UpdateOp update : updates) {
    auto parameter = table.lookup<StateOp>(update.getParameter());
    SmallVector<int64_t> axes = getAxes(parameter);
    if (!axes.empty() && !gradients.axes.empty() && axes != gradients.axes)
      return update.emitOpError("of @")
             << update.getParameter()
             << " has a gradient that is cut over other axes of the mesh than "
                "those before it, so that they have no one sum";
    if (!axes.empty())
      gradients.axes = axes;
    gradients.allDouble &=
        update.getGradient().getType().getElementType().isF64();
    ownGradients |= !parameter.getUnitAttr();
    gradients.byUnit[axes.empty() ? Attribute() : parameter.getUnitAttr()]
        .insert(update.getGradient());
  }
  Mesh mesh(module);
  if (ownGradients) {
    gradients.axes = mesh.getAxes(AxisRole::Shard);
    gradients.replicaAxes = mesh.getAxes(AxisRole::Replicate);
  }
  gradients.ranks = mesh.getNumRanks(gradients.axes);
  gradients.replicas = mesh.getNumRanks(gradients.replicaAxes);
  return gradients;
}

/// Behind the last of `values`.
static void setInsertionPointBehind(OpBuilder &builder,
                                    ArrayRef<Value> values) {
  Value first = values.front();
  builder.setInsertionPointToStart(first.getParentBlock());
  Operation *last = nullptr;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp();
        op && (!last || last->isBeforeInBlock(op)))
      last = op;
  if (last)
    builder.setInsertionPointAfter(last);
}

Value fsdp::createListCall(OpBuilder &builder, Location loc, StringRef callee,
                           ArrayRef<Value> members,
                           ArrayRef<NamedAttribute> args,
                           RankedTensorType type) {
  // One entry says how many members follow, each has one of its own.
  SmallVector<int32_t> slots(1 + members.size(), 1);
  slots.front() = 2 + int32_t(members.size());
  return aten::CallOp::create(builder, loc, aten::Direction::Backward, callee,
                              members, slots, builder.getDictionaryAttr(args),
                              TypeRange(type))
      ->getResult(0);
}

Value Gradients::sumPowers(OpBuilder &builder, Location loc, double p,
                           CollectiveRole role) const {
  bool largest = std::isinf(p);
  auto number = RankedTensorType::get({}, builder.getF64Type());
  auto power = builder.getNamedAttr("p", builder.getF64FloatAttr(p));
  SmallVector<Value> sums;
  for (auto &[unit, gradients] : byUnit) {
    OpBuilder::InsertionGuard guard(builder);
    setInsertionPointBehind(builder, gradients.getArrayRef());
    Location here = gradients.getArrayRef().back().getLoc();
    Value sum = createListCall(builder, here, "fsdp_mlir::power_sum",
                               gradients.getArrayRef(), power, number);
    if (!unit && ranks > 1 && !largest)
      sum = ScalarCalls(builder, here).call("div.Scalar", sum, "other", ranks);
    sums.push_back(sum);
  }
  Value all = sums.front();
  if (sums.size() > 1) {
    auto list =
        RankedTensorType::get({int64_t(sums.size())}, builder.getF64Type());
    all = createListCall(builder, loc, "stack", sums, {}, list);
    all = aten::CallOp::create(builder, loc, aten::Direction::Backward,
                               largest ? "amax" : "sum", all, {},
                               TypeRange(number))
              ->getResult(0);
  }
  auto reduce = [&](ArrayRef<int64_t> over) {
    all = AllReduceOp::create(
        builder, loc, number,
        ReduceOpAttr::get(builder.getContext(),
                          largest ? ReduceOp::Max : ReduceOp::Sum),
        CollectiveRoleAttr::get(builder.getContext(), role), all,
        /*unit=*/StringAttr(), builder.getDenseI64ArrayAttr(over),
        builder.getF64FloatAttr(1.0));
  };
  if (ranks > 1)
    reduce(axes);
  if (replicas == 1)
    return all;
  if (!largest)
    all = ScalarCalls(builder, loc).call("div.Scalar", all, "other", replicas);
  reduce(replicaAxes);
  return all;
}

Value ScalarCalls::call(StringRef callee, ValueRange operands,
                        ArrayRef<NamedAttribute> args, Type element) {
  auto type = ::llvm::cast<RankedTensorType>(operands.front().getType());
  if (element)
    type = RankedTensorType::get(type.getShape(), element);
  return aten::CallOp::create(builder, loc, aten::Direction::Backward, callee,
                              operands, args, TypeRange(type))
      ->getResult(0);
}

Value ScalarCalls::call(StringRef callee, Value operand, StringRef name,
                        double argument) {
  return call(callee, operand,
              builder.getNamedAttr(name, builder.getF64FloatAttr(argument)));
}

Value ScalarCalls::cast(Value number, Type element) {
  if (getElementTypeOrSelf(number) == element)
    return number;
  return call("_to_copy", number,
              builder.getNamedAttr("dtype", TypeAttr::get(element)), element);
}
