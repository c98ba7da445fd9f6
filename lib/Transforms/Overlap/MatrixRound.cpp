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
    : updates(updates.begin(), updates.end()), rule(rule), shards(shards),
      unit(unit), builder(updates.back()), loc(updates.back()->getLoc()) {}

bool MatrixRound::isReadyBefore(Operation *op) const {
  return llvm::all_of(updates, [&](UpdateOp update) {
    return llvm::all_of(update->getOperands(), [&](Value operand) {
      Operation *source = operand.getDefiningOp();
      return !source || source->isBeforeInBlock(op);
    });
  });
}

void MatrixRound::finish(Operation *before) {
  builder.setInsertionPoint(before);
  unpackRows();
  SmallVector<Values> given(updates.size());
  for (Value crossing : rule.getCrossing())
    for (auto [of, local] : llvm::zip_equal(given, getLocals(crossing)))
      of.push_back(local);
  for (auto [update, of] : llvm::zip_equal(updates, given)) {
    if (update != before)
      update->moveBefore(before);
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
  } else {
    auto result = cast<OpResult>(ofRule);
    Operation *op = result.getOwner();
    SmallVector<IRMapping> maps(updates.size());
    for (Value operand : op->getOperands())
      for (auto [map, local] : llvm::zip_equal(maps, getLocals(operand)))
        map.map(operand, local);
    for (IRMapping &map : maps) {
      Operation *copy = clone(op, map);
      for (auto [from, of] : llvm::zip(op->getResults(), copy->getResults()))
        of.setType(getPartType(from));
      made.push_back(copy->getResult(result.getResultNumber()));
    }
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
  return LoadOp::create(builder, loc, getPartType(ofRule), name);
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
  Operation *op = ofRule.getDefiningOp();
  for (Value operand : op->getOperands())
    wholes.map(operand, getWhole(operand));
  Operation *copy = clone(op, wholes);
  if (auto made = dyn_cast<aten::CallOp>(copy); made && !made.isView())
    flops += aten::getWork(made.getCallee(), made->getOperandTypes(),
                           made->getResultTypes())
                 .flops;
  return wholes.lookup(ofRule);
}

// Exchanges

MatrixRound::Row MatrixRound::getRow(ArrayRef<Value> ofRule) {
  Row row;
  for (Value value : ofRule) {
    row.offsets.push_back(row.size);
    row.bytes.push_back(getTensorBytes(getPartType(value)));
    row.size += llvm::alignTo(row.bytes.back(), kAlignment);
  }
  // One part alone for all ranks needs no gaps between them.
  if (updates.size() == 1 && ofRule.size() == 1)
    row.size = row.bytes.front();
  return row;
}

MemberAttr MatrixRound::getAll(const Row &row, size_t i) {
  if (row.size == row.bytes[i])
    return getMember(0, shards * row.size);
  return getMember(row.offsets[i], row.bytes[i], shards);
}

/// Each rank is to have the matrix that it computes: of a round its own, and
/// where one update is alone that one.
void MatrixRound::gather(Operation *before) {
  ArrayRef<Value> ofRule = rule.getGathered();
  builder.setInsertionPoint(before);
  if (shards == 1 || ofRule.empty())
    return;
  bool isAlone = updates.size() == 1;
  Row row = getRow(ofRule);
  Values inputs;
  SmallVector<MemberAttr> members;
  for (int64_t rank = 0; rank < (isAlone ? 1 : shards); ++rank)
    for (auto [i, value] : llvm::enumerate(ofRule)) {
      Values parts = getLocals(value);
      inputs.push_back(parts[std::min<size_t>(rank, parts.size() - 1)]);
      members.push_back(
          getMember(rank * row.size + row.offsets[i], row.bytes[i]));
    }
  gathered =
      isAlone
          ? allGather(pack(inputs, members, getBytesType({row.size})))
          : allToAll(pack(inputs, members, getBytesType({shards, row.size})));
}

void MatrixRound::compute(Operation *before) {
  builder.setInsertionPoint(before);
  unpackMatrices();
  sendRows();
}

void MatrixRound::unpackMatrices() {
  ArrayRef<Value> ofRule = rule.getGathered();
  if (!gathered) {
    for (Value value : ofRule)
      wholes.map(value, getLocals(value).front());
    return;
  }
  Row row = getRow(ofRule);
  // As it lies in buckets: row-major.
  auto getType = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return RankedTensorType::get(type.getShape(), type.getElementType());
  };
  if (row.size == row.bytes.front()) {
    // Rows lie one after the other, the padding behind the last.
    RankedTensorType whole = getType(ofRule.front());
    wholes.map(
        ofRule.front(),
        unpack(gathered, getMember(0, getTensorBytes(whole)), Type(whole))
            .front());
    return;
  }
  SmallVector<MemberAttr> all;
  SmallVector<Type> types;
  for (auto [i, value] : llvm::enumerate(ofRule)) {
    all.push_back(getAll(row, i));
    types.push_back(getPaddedType(getPartType(value), getType(value)));
  }
  Values unpacked = unpack(gathered, all, types);
  for (auto [value, padded] : llvm::zip_equal(ofRule, unpacked)) {
    RankedTensorType whole = getType(value);
    if (padded.getType() != whole) {
      int64_t bytes = getTensorBytes(cast<RankedTensorType>(padded.getType()));
      Value together = pack(padded, getMember(0, bytes), getBytesType({bytes}));
      padded =
          unpack(together, getMember(0, getTensorBytes(whole)), Type(whole))
              .front();
    }
    wholes.map(value, padded);
  }
}

void MatrixRound::sendRows() {
  ArrayRef<Value> ofRule = rule.getCrossing();
  Values computed;
  for (Value value : ofRule)
    computed.push_back(createRowMajor(builder, getWhole(value)));
  if (shards == 1 || ofRule.empty()) {
    for (auto [value, whole] : llvm::zip_equal(ofRule, computed))
      locals[value] = {whole};
    return;
  }
  Row row = getRow(ofRule);
  SmallVector<MemberAttr> all;
  for (auto [i, value] : llvm::enumerate(ofRule)) {
    computed[i] = pad(computed[i], getPartType(value));
    all.push_back(getAll(row, i));
  }
  if (updates.size() > 1) {
    sent = allToAll(pack(computed, all, getBytesType({shards, row.size})));
    return;
  }
  Value bucket = pack(computed, all, getBytesType({shards * row.size}));
  sent = KeepOp::create(builder, loc, getBytesType({row.size}), bucket, shards);
}

/// Each rank gets its rows of all the updates' results.
void MatrixRound::unpackRows() {
  if (!sent)
    return;
  ArrayRef<Value> ofRule = rule.getCrossing();
  Row row = getRow(ofRule);
  SmallVector<MemberAttr> members;
  SmallVector<Type> types;
  for (size_t update = 0; update < updates.size(); ++update)
    for (auto [i, value] : llvm::enumerate(ofRule)) {
      types.push_back(getPartType(value));
      members.push_back(
          getMember(update * row.size + row.offsets[i], row.bytes[i]));
    }
  Values parts = unpack(sent, members, types);
  for (auto [i, part] : llvm::enumerate(parts))
    locals[ofRule[i % ofRule.size()]].push_back(part);
}

Value MatrixRound::allGather(Value bucket) {
  RankedTensorType all = getBytesType(
      {shards * getTensorBytes(cast<RankedTensorType>(bucket.getType()))});
  movedBytes += getTensorBytes(all);
  return AllGatherOp::create(
      builder, loc, all, bucket, unit, builder.getStringAttr("update"),
      /*mapped=*/UnitAttr(), /*ranks=*/builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(*Mesh(updates.back()).getShardAxis()));
}

Value MatrixRound::allToAll(Value bucket) {
  movedBytes += getTensorBytes(cast<RankedTensorType>(bucket.getType()));
  return AllToAllOp::create(
      builder, loc, bucket.getType(), bucket, unit,
      builder.getI64IntegerAttr(*Mesh(updates.back()).getShardAxis()));
}

/// Gives a matrix as many rows on each rank.
Value MatrixRound::pad(Value whole, RankedTensorType part) {
  auto type = cast<RankedTensorType>(whole.getType());
  RankedTensorType padded = getPaddedType(part, type);
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

MatrixRound::Values MatrixRound::unpack(Value bucket,
                                        ArrayRef<MemberAttr> members,
                                        ArrayRef<Type> types) {
  SmallVector<Attribute> table(members.begin(), members.end());
  return Values(
      UnpackOp::create(builder, loc, types, bucket, builder.getArrayAttr(table))
          .getOutputs());
}

// Types

RankedTensorType MatrixRound::getPartType(Value ofRule) {
  UpdateOp any = updates.front();
  auto type = cast<RankedTensorType>(ofRule.getType());
  if (rule.isLikeParameter(type))
    return RankedTensorType::get(any.getGradient().getType().getShape(),
                                 type.getElementType());
  auto name =
      cast<FlatSymbolRefAttr>(any.getStates()[rule.getState(ofRule)]).getAttr();
  return SymbolTable::lookupNearestSymbolFrom<StateOp>(any, name)
      .getTensorType();
}

RankedTensorType MatrixRound::getPaddedType(RankedTensorType part,
                                            RankedTensorType whole) {
  if (part.getNumElements() * shards == whole.getNumElements())
    return whole;
  SmallVector<int64_t> shape(part.getShape());
  shape[0] *= shards;
  return RankedTensorType::get(shape, part.getElementType());
}

RankedTensorType MatrixRound::getBytesType(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getIntegerType(8, false));
}

MemberAttr MatrixRound::getMember(int64_t offset, int64_t bytes,
                                  int64_t blocks) {
  return MemberAttr::get(builder.getContext(), offset, bytes, blocks);
}
