// What buffers had before a step of several micro-batches.

#include "Shard/KeptBuffers.h"

#include "Shard/SkippedSteps.h"

#include "fsdp/Dialect/Aten/Aten.h"

using namespace mlir;
using namespace fsdp;

// Counts a step's micro-batches; zero between two steps.
static constexpr StringLiteral kCountName = "fsdp.kept.micro_batches";

void fsdp::addZeroState(ModuleOp module, StringRef name,
                        RankedTensorType type) {
  auto states = module.getOps<StateOp>();
  OpBuilder builder(module.getContext());
  builder.setInsertionPoint(*states.begin());
  auto zero = InitAttr::get(builder.getContext(), InitKind::Fill,
                            builder.getDenseF64ArrayAttr({0.0}), 0, 0, {}, {});
  NamedAttribute attributes[] = {
      builder.getNamedAttr("sym_name", builder.getStringAttr(name)),
      builder.getNamedAttr("role",
                           RoleAttr::get(builder.getContext(), Role::Buffer)),
      builder.getNamedAttr("type", TypeAttr::get(type)),
      builder.getNamedAttr("init", builder.getArrayAttr(zero))};
  StateOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                  TypeRange(), ValueRange(), attributes);
}

KeptBuffers::KeptBuffers(ModuleOp module)
    : module(module), accumulate(module.lookupSymbol<func::FuncOp>(
                          plan::accumulateProgramName)) {}

bool KeptBuffers::isStoredBefore(StateOp buffer) {
  return accumulate &&
         llvm::any_of(accumulate.getOps<StoreOp>(), [&](StoreOp store) {
           return store.getState() == buffer.getSymName();
         });
}

/// Whether a run of @accumulate is that of a step's first micro-batch, which
/// makes the next run another one.
Value KeptBuffers::isFirst(Location loc) {
  if (first)
    return first;
  OpBuilder builder(accumulate.getContext());
  auto number = RankedTensorType::get({}, builder.getF64Type());
  addZeroState(module, kCountName, number);
  builder.setInsertionPointToStart(&accumulate.getBody().front());
  auto call = [&](StringRef callee, Value operand, double other, Type element) {
    auto argument =
        builder.getNamedAttr("other", builder.getF64FloatAttr(other));
    return aten::CallOp::create(builder, loc, aten::Direction::Forward, callee,
                                operand, argument,
                                TypeRange(RankedTensorType::get({}, element)))
        ->getResult(0);
  };
  Value count = loadState(builder, loc, kCountName);
  first = call("eq.Scalar", count, 0, builder.getI1Type());
  Value next = call("add.Scalar", count, 1, builder.getF64Type());
  StoreOp::create(builder, loc, next, kCountName);
  return first;
}

/// In @accumulate: before anything stores the buffer, and once in a step.
void KeptBuffers::keep(Location loc, StateOp buffer, StringRef name) {
  addZeroState(module, name, buffer.getTensorType());
  Value isFirst = this->isFirst(loc);
  OpBuilder builder(accumulate.getContext());
  builder.setInsertionPointAfterValue(isFirst);
  Value now = loadState(builder, loc, buffer.getSymName());
  Value before = loadState(builder, loc, name);
  auto kept = aten::CallOp::create(builder, loc, aten::Direction::Forward,
                                   "where.self", {isFirst, now, before}, {},
                                   TypeRange(now.getType()));
  StoreOp::create(builder, loc, kept->getResult(0), name);
}

Value KeptBuffers::load(OpBuilder &builder, Location loc, StateOp buffer) {
  if (!isStoredBefore(buffer))
    return loadState(builder, loc, buffer.getSymName());
  std::string name = (plan::keptStatePrefix + buffer.getSymName()).str();
  keep(loc, buffer, name);
  return loadState(builder, loc, name);
}

void KeptBuffers::endStep(OpBuilder &builder, Location loc) {
  if (!first)
    return;
  ScalarCalls scalars(builder, loc);
  Value count = loadState(builder, loc, kCountName);
  StoreOp::create(builder, loc, scalars.call("mul.Scalar", count, "other", 0.0),
                  kCountName);
}
