// fsdp-split-matrix-rules.

#include "Overlap/MatrixRule.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

namespace fsdp {
#define GEN_PASS_DEF_SPLITMATRIXRULES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class SplitMatrixRules
    : public fsdp::impl::SplitMatrixRulesBase<SplitMatrixRules> {
  void runOnOperation() override;
  LogicalResult split(UpdateOp update, const SymbolTable &table);
};

/// What one update needs of whole matrices, in front of it.
class WholePart {
public:
  WholePart(UpdateOp update, const MatrixRule &rule, int64_t shards)
      : update(update), rule(rule), shards(shards), builder(update),
        loc(update.getLoc()) {}

  /// The tensors to give the update: this rank's parts of what is crossing.
  SmallVector<Value> build(StringAttr unit);
  int64_t getGatheredBytes() const { return gatheredBytes; }

private:
  Value getLocal(Value ofRule);
  Value getWhole(Value ofRule);
  Value clone(Operation *op, IRMapping &map, bool local, unsigned result);
  Value gather(Value part, RankedTensorType whole);
  Value cut(Value whole);
  aten::CallOp call(StringRef callee, ValueRange operands,
                    ArrayRef<NamedAttribute> args, Type type);
  RankedTensorType getPartType(Type ofRule) {
    return RankedTensorType::get(
        update.getGradient().getType().getShape(),
        cast<RankedTensorType>(ofRule).getElementType());
  }
  RankedTensorType getBytesType(RankedTensorType part, int64_t parts) {
    return RankedTensorType::get({parts * getTensorBytes(part)},
                                 builder.getIntegerType(8, false));
  }
  ArrayAttr oneMember(RankedTensorType type) {
    return builder.getArrayAttr(MemberAttr::get(
        builder.getContext(), /*offset=*/0, getTensorBytes(type), 1));
  }

  UpdateOp update;
  const MatrixRule &rule;
  int64_t shards;
  OpBuilder builder;
  Location loc;
  StringAttr unit;
  IRMapping locals, wholes;
  int64_t gatheredBytes = 0;
};

aten::CallOp WholePart::call(StringRef callee, ValueRange operands,
                             ArrayRef<NamedAttribute> args, Type type) {
  return aten::CallOp::create(builder, loc, aten::Phase::Backward, callee,
                              operands, args, type);
}

/// A copy of an op of the rule: on parts, or on whole matrices.
Value WholePart::clone(Operation *op, IRMapping &map, bool local,
                       unsigned result) {
  for (Value operand : op->getOperands())
    map.map(operand, local ? getLocal(operand) : getWhole(operand));
  Operation *copy = builder.clone(*op, map);
  if (auto call = dyn_cast<aten::CallOp>(copy))
    call.setBackward(true);
  for (auto [from, to] : llvm::zip(op->getResults(), copy->getResults()))
    if (local && rule.isOfElements(from))
      to.setType(getPartType(from.getType()));
  return copy->getResult(result);
}

/// A value of the rule as this rank has it, its rows alone.
Value WholePart::getLocal(Value ofRule) {
  if (Value known = locals.lookupOrNull(ofRule))
    return known;
  Value local;
  if (auto argument = dyn_cast<BlockArgument>(ofRule)) {
    if (argument.getArgNumber() == 1) {
      local = update.getGradient();
      if (Value scale = update.getScale())
        local = call("mul.Tensor", {local, scale}, {}, local.getType())
                    ->getResult(0);
    } else {
      auto name = argument.getArgNumber() == 0
                      ? update.getParameterAttr()
                      : cast<FlatSymbolRefAttr>(
                            update.getStates()[argument.getArgNumber() - 2]);
      local = LoadOp::create(builder, loc, getPartType(ofRule.getType()), name);
    }
  } else if (rule.isOfElements(ofRule) || rule.isFree(ofRule)) {
    auto result = cast<OpResult>(ofRule);
    local = clone(result.getOwner(), locals, /*local=*/true,
                  result.getResultNumber());
  } else {
    local = cut(getWhole(ofRule));
  }
  locals.map(ofRule, local);
  return local;
}

Value WholePart::getWhole(Value ofRule) {
  if (rule.isFree(ofRule))
    return getLocal(ofRule);
  if (Value known = wholes.lookupOrNull(ofRule))
    return known;
  auto result = dyn_cast<OpResult>(ofRule);
  Value whole =
      !result || rule.isOfElements(ofRule)
          ? gather(getLocal(ofRule), cast<RankedTensorType>(ofRule.getType()))
          : clone(result.getOwner(), wholes, /*local=*/false,
                  result.getResultNumber());
  wholes.map(ofRule, whole);
  return whole;
}

Value WholePart::gather(Value part, RankedTensorType whole) {
  if (shards == 1)
    return part;
  auto type = cast<RankedTensorType>(part.getType());
  RankedTensorType one = getBytesType(type, 1),
                   all = getBytesType(type, shards);
  Mesh mesh(update);
  Value packed =
      PackOp::create(builder, loc, one, part, oneMember(type)).getBucket();
  Value gathered = AllGatherOp::create(
      builder, loc, all, packed, unit, builder.getStringAttr("update"),
      /*mapped=*/UnitAttr(), /*ranks=*/builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(*mesh.getShardAxis()));
  gatheredBytes += getTensorBytes(all);
  // Rows lie one after the other, the padding behind the last.
  auto rowMajor =
      RankedTensorType::get(whole.getShape(), whole.getElementType());
  return UnpackOp::create(builder, loc, TypeRange(rowMajor), gathered,
                          oneMember(rowMajor))
      .getOutputs()
      .front();
}

/// This rank's rows.
Value WholePart::cut(Value whole) {
  whole = createRowMajor(builder, whole);
  if (shards == 1)
    return whole;
  auto type = cast<RankedTensorType>(whole.getType());
  RankedTensorType part = getPartType(type);
  SmallVector<int64_t> shape(part.getShape());
  shape[0] *= shards;
  auto padded = RankedTensorType::get(shape, type.getElementType());
  if (padded != type) {
    // Pairs of (before, after), the last dimension first.
    SmallVector<int64_t> pad(2 * type.getRank(), 0);
    pad.back() = shape[0] - type.getDimSize(0);
    NamedAttribute args[] = {
        builder.getNamedAttr("pad", builder.getDenseI64ArrayAttr(pad))};
    whole = call("constant_pad_nd", whole, args, padded)->getResult(0);
  }
  Value packed = PackOp::create(builder, loc, getBytesType(part, shards), whole,
                                oneMember(padded))
                     .getBucket();
  Value kept =
      KeepOp::create(builder, loc, getBytesType(part, 1), packed, shards);
  return UnpackOp::create(builder, loc, TypeRange(part), kept, oneMember(part))
      .getOutputs()
      .front();
}

SmallVector<Value> WholePart::build(StringAttr ofUnit) {
  unit = ofUnit;
  SmallVector<Value> given;
  for (Value crossing : rule.getCrossing())
    given.push_back(getLocal(crossing));
  return given;
}

LogicalResult SplitMatrixRules::split(UpdateOp update,
                                      const SymbolTable &table) {
  auto function = table.lookup<func::FuncOp>(update.getRule());
  if (!function || !isMatrixRule(function))
    return success();
  auto parameter = table.lookup<StateOp>(update.getParameter());
  auto whole = cast<RankedTensorType>(function.getArgument(0).getType());
  if (parameter.getGlobalType().getShape() != whole.getShape())
    return update.emitOpError()
           << "is by a rule of " << whole << ", but the parameter is "
           << parameter.getGlobalType();
  if (update.getStaged() || parameter.getOnHost())
    return update.emitOpError(
        "is by a rule that looks at the whole matrix, which has to be on the "
        "device with its states; use offload=none");
  if (parameter.getShardDim().value_or(0) != 0)
    return update.emitOpError("is by a rule that looks at the whole matrix, "
                              "which has to be split on dimension 0");
  FailureOr<MatrixRule> rule = MatrixRule::read(function);
  if (failed(rule))
    return failure();
  int64_t shards =
      parameter.getSharding() ? Mesh(update).getNumShards() : int64_t(1);
  WholePart part(update, *rule, shards);
  SmallVector<Value> given = part.build(parameter.getUnitAttr());
  update.getGivenMutable().assign(given);
  update.setRule(rule->getElementRule(table).getSymName());
  remark::passed(update.getLoc(), remark::RemarkOpts::name("split").category(
                                      "fsdp-split-matrix-rules"))
      << "each rank computes the update of a whole matrix"
      << remark::metric("parameter", update.getParameter().str())
      << remark::metric("gathered_bytes", part.getGatheredBytes());
  return success();
}

void SplitMatrixRules::runOnOperation() {
  ModuleOp module = getOperation();
  for (func::FuncOp program : getPrograms(module)) {
    for (UpdateOp update : llvm::to_vector(program.getOps<UpdateOp>()))
      if (failed(split(update, SymbolTable(module))))
        return signalPassFailure();
    eraseDeadOps(program);
  }
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isMatrixRule(function))
      function.erase();
}

} // namespace
