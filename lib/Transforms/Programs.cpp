// Programs, phases and units of a module.

#include "fsdp/Transforms/Programs.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

using namespace mlir;

SmallVector<func::FuncOp> fsdp::getTurns(func::FuncOp step) {
  SmallVector<func::FuncOp> turns;
  auto module = step->getParentOfType<ModuleOp>();
  for (func::FuncOp turn = step; turn && !llvm::is_contained(turns, turn);) {
    turns.push_back(turn);
    auto next = kNextAttr.get(turn);
    turn = next ? module.lookupSymbol<func::FuncOp>(next) : func::FuncOp();
  }
  return turns;
}

SmallVector<fsdp::aten::CallOp> fsdp::getCotangents(func::FuncOp program) {
  SmallVector<aten::CallOp> calls;
  program.walk([&](aten::CallOp call) {
    if (kCotangentAttr.isOn(call))
      calls.push_back(call);
  });
  return calls;
}

FailureOr<SmallVector<fsdp::aten::CallOp>>
fsdp::requireCotangents(func::FuncOp program) {
  SmallVector<aten::CallOp> calls = getCotangents(program);
  if (calls.empty())
    return program.emitError(
        "has no op marked fsdp.cotangent, the gradient that backward starts "
        "with; import the step again");
  return calls;
}

llvm::StringMap<fsdp::UnitOp> fsdp::getUnits(ModuleOp module) {
  llvm::StringMap<UnitOp> units;
  for (UnitOp unit : module.getOps<UnitOp>())
    units[unit.getUnitName()] = unit;
  return units;
}

int64_t fsdp::getLocalRows(int64_t rows, int64_t ranks) {
  return (rows + ranks - 1) / ranks;
}

fsdp::ReduceGradOp fsdp::getReduction(UpdateOp update) {
  return aten::lookThroughPrecisionCast(update.getGradient())
      .getDefiningOp<ReduceGradOp>();
}

fsdp::LoadOp fsdp::getGatheredLoad(Value gathered) {
  Value part = aten::lookThroughPrecisionCast(gathered);
  if (auto fetch = part.getDefiningOp<FetchOp>())
    part = fetch.getInput();
  return part.getDefiningOp<LoadOp>();
}

SmallVector<Operation *> fsdp::getReadersThroughCasts(Value value) {
  SmallVector<Operation *> readers;
  for (Operation *reader : value.getUsers())
    if (aten::isPrecisionCast(reader))
      llvm::append_range(readers, reader->getUsers());
    else
      readers.push_back(reader);
  return readers;
}

StringRef fsdp::getOperator(Value value) {
  if (auto call = value.getDefiningOp<aten::CallOp>())
    return call.getCallee();
  Operation *op = value.getDefiningOp();
  return op ? op->getName().getStringRef() : "an input";
}

Value fsdp::createRowMajor(OpBuilder &builder, Value gradient) {
  auto type = cast<RankedTensorType>(gradient.getType());
  if (!type.getEncoding())
    return gradient;
  NamedAttribute args[] = {
      builder.getNamedAttr("memory_format", builder.getI64IntegerAttr(0))};
  auto clone = aten::CallOp::create(
      builder, gradient.getLoc(), aten::Direction::Backward, "clone", gradient,
      args, RankedTensorType::get(type.getShape(), type.getElementType()));
  return clone->getResult(0);
}

LogicalResult fsdp::addOutput(func::FuncOp program, StringRef name,
                              Value value) {
  Builder builder(program.getContext());
  NamedAttribute attribute = kOutputAttr.named(program.getContext(), name);
  if (failed(program.insertResult(program.getNumResults(), value.getType(),
                                  builder.getDictionaryAttr(attribute))))
    return failure();
  cast<func::ReturnOp>(program.getBody().front().getTerminator())
      .getOperandsMutable()
      .append(value);
  return success();
}

void fsdp::eraseDeadOps(func::FuncOp program) {
  for (Block &block : program.getBody())
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
}
