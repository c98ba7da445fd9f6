// What updates need of whole matrices, computed in front of them.

#include "Overlap/MatrixRound.h"

#include "fsdp/Dialect/Aten/Work.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fsdp;

MatrixRound::MatrixRound(ArrayRef<UpdateOp> updates, const MatrixRule &rule,
                         int64_t shards, StringAttr unit)
    : updates(updates), rule(rule), shards(shards), unit(unit),
      builder(updates.back()), loc(updates.back()->getLoc()) {}

void MatrixRound::build() {
  SmallVector<Values> given(updates.size());
  for (Value crossing : rule.getCrossing())
    for (auto [of, local] : llvm::zip_equal(given, getLocals(crossing)))
      of.push_back(local);
  for (auto [update, of] : llvm::zip_equal(updates, given)) {
    update->moveBefore(updates.back());
    UpdateOp(update).getGivenMutable().assign(of);
  }
}

// Values of the rule

MatrixRound::Values MatrixRound::getLocals(Value ofRule) {
  if (auto known = locals.find(ofRule); known != locals.end())
    return known->second;
  Values made;
  if (auto argument = dyn_cast<BlockArgument>(ofRule)) {
    for (UpdateOp update : updates)
      made.push_back(getArgument(update, argument));
  } else if (rule.isFree(ofRule)) {
    made.assign(updates.size(), getFree(ofRule));
  } else if (rule.isOfElements(ofRule)) {
    auto result = cast<OpResult>(ofRule);
    Operation *op = result.getOwner();
    SmallVector<IRMapping> maps(updates.size());
    for (Value operand : op->getOperands())
      for (auto [map, local] : llvm::zip_equal(maps, getLocals(operand)))
        map.map(operand, local);
    for (IRMapping &map : maps) {
      Operation *copy = clone(op, map);
      for (Value of : copy->getResults())
        of.setType(getPartType(of.getType()));
      made.push_back(copy->getResult(result.getResultNumber()));
    }
  } else {
    Value whole = createRowMajor(builder, getWhole(ofRule));
    RankedTensorType part = getPartType(whole.getType());
    if (shards == 1)
      made.push_back(whole);
    else if (updates.size() == 1)
      made.push_back(cut(pad(whole, part), part));
    else
      made = distribute(pad(whole, part), part);
  }
  return locals[ofRule] = made;
}

Value MatrixRound::getArgument(UpdateOp update, BlockArgument ofRule) {
  unsigned number = ofRule.getArgNumber();
  if (number == 1) {
    Value gradient = update.getGradient(), scale = update.getScale();
    return scale ? call("mul.Tensor", {gradient, scale}, {}, gradient.getType())
                 : gradient;
  }
  auto name = number == 0
                  ? update.getParameterAttr()
                  : cast<FlatSymbolRefAttr>(update.getStates()[number - 2]);
  return LoadOp::create(builder, loc, getPartType(ofRule.getType()), name);
}

Value MatrixRound::getFree(Value ofRule) {
  if (Value known = free.lookupOrNull(ofRule))
    return known;
  auto result = cast<OpResult>(ofRule);
  for (Value operand : result.getOwner()->getOperands())
    getFree(operand);
  clone(result.getOwner(), free);
  return free.lookup(ofRule);
}

Value MatrixRound::getWhole(Value ofRule) {
  if (rule.isFree(ofRule))
    return getFree(ofRule);
  if (Value known = wholes.lookupOrNull(ofRule))
    return known;
  auto result = dyn_cast<OpResult>(ofRule);
  if (result && !rule.isOfElements(ofRule)) {
    for (Value operand : result.getOwner()->getOperands())
      wholes.map(operand, getWhole(operand));
    Operation *copy = clone(result.getOwner(), wholes);
    if (auto made = dyn_cast<aten::CallOp>(copy); made && !made.isView())
      flops += aten::getWork(made.getCallee(), made->getOperandTypes(),
                             made->getResultTypes())
                   .flops;
    return wholes.lookup(ofRule);
  }
  auto type = cast<RankedTensorType>(ofRule.getType());
  // As it lies in buckets: row-major.
  type = RankedTensorType::get(type.getShape(), type.getElementType());
  Values parts = getLocals(ofRule);
  Value whole = shards == 1           ? parts.front()
                : updates.size() == 1 ? gather(parts.front(), type)
                                      : collect(parts, type);
  wholes.map(ofRule, whole);
  return whole;
}

// One update alone: each rank has the whole matrix

Value MatrixRound::gather(Value part, RankedTensorType whole) {
  int64_t bytes = getTensorBytes(cast<RankedTensorType>(part.getType()));
  RankedTensorType all = getBytesType({shards * bytes});
  Value gathered = AllGatherOp::create(
      builder, loc, all, pack(part, getMember(0, bytes), getBytesType({bytes})),
      unit, builder.getStringAttr("update"), /*mapped=*/UnitAttr(),
      /*ranks=*/builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(*Mesh(updates.back()).getShardAxis()));
  movedBytes += getTensorBytes(all);
  // Rows lie one after the other, the padding behind the last.
  return unpack(gathered, getMember(0, getTensorBytes(whole)), whole);
}

Value MatrixRound::cut(Value padded, RankedTensorType part) {
  int64_t bytes = getTensorBytes(part);
  Value packed = pack(padded, getMember(0, shards * bytes),
                      getBytesType({shards * bytes}));
  Value kept =
      KeepOp::create(builder, loc, getBytesType({bytes}), packed, shards);
  return unpack(kept, getMember(0, bytes), part);
}

// A round: each rank has one of the matrices

Value MatrixRound::collect(ArrayRef<Value> parts, RankedTensorType whole) {
  auto part = cast<RankedTensorType>(parts.front().getType());
  RankedTensorType rows = getRowsType(part);
  Values inputs(parts);
  inputs.resize(shards, parts.back());
  SmallVector<MemberAttr> members;
  for (int64_t i = 0; i < shards; ++i)
    members.push_back(getMember(i * rows.getDimSize(1), getTensorBytes(part)));
  Value mine = exchange(pack(inputs, members, rows));
  if (rows.getDimSize(1) == getTensorBytes(part))
    return unpack(mine, getMember(0, getTensorBytes(whole)), whole);
  // There are gaps between the ranks' rows.
  RankedTensorType padded = getPaddedType(part);
  int64_t bytes = getTensorBytes(padded);
  Value together = pack(unpack(mine, getRows(part), padded),
                        getMember(0, bytes), getBytesType({bytes}));
  return unpack(together, getMember(0, getTensorBytes(whole)), whole);
}

MatrixRound::Values MatrixRound::distribute(Value padded,
                                            RankedTensorType part) {
  RankedTensorType rows = getRowsType(part);
  Value theirs = exchange(pack(padded, getRows(part), rows));
  SmallVector<Attribute> members;
  for (size_t i = 0; i < updates.size(); ++i)
    members.push_back(getMember(i * rows.getDimSize(1), getTensorBytes(part)));
  auto unpacked =
      UnpackOp::create(builder, loc, SmallVector<Type>(updates.size(), part),
                       theirs, builder.getArrayAttr(members));
  return Values(unpacked.getOutputs());
}

Value MatrixRound::exchange(Value bucket) {
  movedBytes += getTensorBytes(cast<RankedTensorType>(bucket.getType()));
  return AllToAllOp::create(
      builder, loc, bucket.getType(), bucket, unit,
      builder.getI64IntegerAttr(*Mesh(updates.back()).getShardAxis()));
}

/// Gives a matrix as many rows on each rank.
Value MatrixRound::pad(Value whole, RankedTensorType part) {
  auto type = cast<RankedTensorType>(whole.getType());
  RankedTensorType padded = getPaddedType(part);
  if (padded == type)
    return whole;
  // Pairs of (before, after), the last dimension first.
  SmallVector<int64_t> sizes(2 * type.getRank(), 0);
  sizes.back() = padded.getDimSize(0) - type.getDimSize(0);
  NamedAttribute args[] = {
      builder.getNamedAttr("pad", builder.getDenseI64ArrayAttr(sizes))};
  return call("constant_pad_nd", whole, args, padded);
}

// Ops

Operation *MatrixRound::clone(Operation *op, IRMapping &map) {
  Operation *copy = builder.clone(*op, map);
  if (auto call = dyn_cast<aten::CallOp>(copy))
    call.setBackward(true);
  return copy;
}

Value MatrixRound::call(StringRef callee, ValueRange operands,
                        ArrayRef<NamedAttribute> args, Type type) {
  return aten::CallOp::create(builder, loc, aten::Phase::Backward, callee,
                              operands, args, type)
      ->getResult(0);
}

Value MatrixRound::pack(ArrayRef<Value> inputs, ArrayRef<MemberAttr> members,
                        RankedTensorType bucket) {
  SmallVector<Attribute> table(members.begin(), members.end());
  return PackOp::create(builder, loc, bucket, inputs,
                        builder.getArrayAttr(table))
      .getBucket();
}

Value MatrixRound::unpack(Value bucket, MemberAttr member,
                          RankedTensorType type) {
  return UnpackOp::create(builder, loc, TypeRange(type), bucket,
                          builder.getArrayAttr(Attribute(member)))
      .getOutputs()
      .front();
}

// Types

RankedTensorType MatrixRound::getPartType(Type ofRule) {
  UpdateOp any = updates.front();
  return RankedTensorType::get(any.getGradient().getType().getShape(),
                               cast<RankedTensorType>(ofRule).getElementType());
}

RankedTensorType MatrixRound::getPaddedType(RankedTensorType part) {
  SmallVector<int64_t> shape(part.getShape());
  shape[0] *= shards;
  return RankedTensorType::get(shape, part.getElementType());
}

RankedTensorType MatrixRound::getBytesType(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getIntegerType(8, false));
}

RankedTensorType MatrixRound::getRowsType(RankedTensorType part) {
  return getBytesType(
      {shards, int64_t(llvm::alignTo(getTensorBytes(part), kAlignment))});
}

MemberAttr MatrixRound::getRows(RankedTensorType part) {
  int64_t bytes = getTensorBytes(part);
  return bytes % kAlignment ? getMember(0, bytes, shards)
                            : getMember(0, shards * bytes);
}

MemberAttr MatrixRound::getMember(int64_t offset, int64_t bytes,
                                  int64_t blocks) {
  return MemberAttr::get(builder.getContext(), offset, bytes, blocks);
}
