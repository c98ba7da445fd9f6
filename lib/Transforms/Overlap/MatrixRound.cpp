// What updates need of whole matrices, computed in front of them.

#include "Overlap/MatrixRound.h"

#include "fsdp/Dialect/Aten/Work.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fsdp;

static UpdateOp findLast(ArrayRef<MatrixRound::Matrix> matrices) {
  return llvm::max_element(matrices,
                           [](const auto &a, const auto &b) {
                             return UpdateOp(a.update)->isBeforeInBlock(
                                 UpdateOp(b.update));
                           })
      ->update;
}

MatrixRound::MatrixRound(ArrayRef<Matrix> matrices, int64_t shards)
    : count(matrices.size()), last(findLast(matrices)), shards(shards),
      builder(last), loc(last->getLoc()) {
  for (auto [i, matrix] : llvm::enumerate(matrices)) {
    if (groups.empty() || groups.back().rule != matrix.rule) {
      groups.emplace_back();
      groups.back().rule = matrix.rule;
      groups.back().first = i;
    }
    groups.back().updates.push_back(matrix.update);
  }
  for (size_t i = 0; groups.size() > 1 && i < groups.size(); ++i) {
    size_t end = i + 1 < groups.size() ? groups[i + 1].first : shards;
    groups[i].shards =
        ShardsAttr::get(builder.getContext(), groups[i].first, end);
  }
}

bool MatrixRound::isReadyBefore(Operation *op) const {
  return llvm::all_of(groups, [&](const Group &group) {
    return llvm::all_of(group.updates, [&](UpdateOp update) {
      return llvm::all_of(update->getOperands(), [&](Value operand) {
        Operation *source = operand.getDefiningOp();
        return !source || source->isBeforeInBlock(op);
      });
    });
  });
}

double MatrixRound::getSeconds(const OpCost &cost) const {
  double computing = 0, moving = 0;
  for (const Group &group : groups)
    computing = std::max(computing, group.rule->getSeconds(cost));
  auto exchange = [&](plan::CollectiveKind kind, Exchanged what) {
    if (int64_t size = getRowSize(what); size && shards > 1)
      moving += cost.getSecondsOverShards(kind, double(shards) * size);
  };
  exchange(count == 1 ? plan::CollectiveKind::AllGather
                      : plan::CollectiveKind::AllToAll,
           &MatrixRule::getGathered);
  if (count > 1)
    exchange(plan::CollectiveKind::AllToAll, &MatrixRule::getCrossing);
  return computing + moving;
}

double MatrixRound::getFlops() const {
  double most = 0;
  for (const Group &group : groups)
    most = std::max(most, group.flops);
  return most;
}

void MatrixRound::finish(Operation *before) {
  builder.setInsertionPoint(before);
  unpackRows();
  for (Group &group : groups) {
    SmallVector<Values> given(group.updates.size());
    for (Value crossing : group.rule->getCrossing())
      for (auto [of, local] :
           llvm::zip_equal(given, getLocals(group, crossing)))
        of.push_back(local);
    for (auto [update, of] : llvm::zip_equal(group.updates, given)) {
      if (update != before)
        update->moveBefore(before);
      UpdateOp(update).getGivenMutable().assign(of);
    }
  }
}

/// The matrices that a rank computes one of.
MatrixRound::Group &MatrixRound::getGroup(int64_t rank) {
  size_t i = groups.size() - 1;
  while (i && int64_t(groups[i].first) > rank)
    --i;
  return groups[i];
}

// Values of the rule

MatrixRound::Values MatrixRound::getLocals(Group &group, Value ofRule) {
  const MatrixRule &rule = *group.rule;
  if (auto known = group.locals.find(ofRule); known != group.locals.end())
    return known->second;
  Values made;
  if (auto argument = dyn_cast<BlockArgument>(ofRule)) {
    for (UpdateOp update : group.updates)
      made.push_back(getArgument(update, argument));
  } else if (rule.isFree(ofRule)) {
    made.assign(group.updates.size(), getFree(group, ofRule));
  } else {
    auto result = cast<OpResult>(ofRule);
    Operation *op = result.getOwner();
    SmallVector<IRMapping> maps(group.updates.size());
    for (Value operand : op->getOperands())
      for (auto [map, local] : llvm::zip_equal(maps, getLocals(group, operand)))
        map.map(operand, local);
    for (IRMapping &map : maps) {
      Operation *copy = clone(op, map);
      for (auto [from, of] : llvm::zip(op->getResults(), copy->getResults()))
        of.setType(getPartType(group, from));
      made.push_back(copy->getResult(result.getResultNumber()));
    }
  }
  return group.locals[ofRule] = made;
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
  auto state =
      SymbolTable::lookupNearestSymbolFrom<StateOp>(update, name.getAttr());
  return LoadOp::create(builder, loc, state.getTensorType(), name);
}

Value MatrixRound::getFree(Group &group, Value ofRule) {
  if (Value known = group.free.lookupOrNull(ofRule))
    return known;
  auto result = cast<OpResult>(ofRule);
  for (Value operand : result.getOwner()->getOperands())
    getFree(group, operand);
  clone(result.getOwner(), group.free);
  return group.free.lookup(ofRule);
}

Value MatrixRound::getWhole(Group &group, Value ofRule) {
  if (group.rule->isFree(ofRule))
    return getFree(group, ofRule);
  if (Value known = group.wholes.lookupOrNull(ofRule))
    return known;
  Operation *op = ofRule.getDefiningOp();
  for (Value operand : op->getOperands())
    group.wholes.map(operand, getWhole(group, operand));
  clone(op, group.wholes);
  Value whole = group.wholes.lookup(ofRule);
  auto made = whole.getDefiningOp<aten::CallOp>();
  if (made && !made.isView())
    group.flops += aten::getWork(made.getCallee(), made->getOperandTypes(),
                                 made->getResultTypes())
                       .flops;
  return restrict(group, whole);
}

// Exchanges

MatrixRound::Row MatrixRound::getRow(const Group &group, Exchanged what) const {
  ArrayRef<Value> ofRule = (group.rule->*what)();
  Row row;
  for (Value value : ofRule) {
    row.offsets.push_back(row.size);
    row.bytes.push_back(getTensorBytes(getPartType(group, value)));
    row.size += llvm::alignTo(row.bytes.back(), kAlignment);
  }
  // One part alone for all ranks needs no gaps between them.
  if (count == 1 && ofRule.size() == 1)
    row.size = row.bytes.front();
  return row;
}

int64_t MatrixRound::getRowSize(Exchanged what) const {
  int64_t size = 0;
  for (const Group &group : groups)
    size = std::max(size, getRow(group, what).size);
  return size;
}

MemberAttr MatrixRound::getAll(const Group &group, const Row &row, size_t i,
                               int64_t rowSize) {
  if (rowSize == row.bytes[i] && !group.shards)
    return getMember(0, shards * rowSize);
  return getMember(row.offsets[i], row.bytes[i], shards, group.shards);
}

/// Each rank is to have the matrix that it computes: of a round its own, and
/// where one update is alone that one.
void MatrixRound::gather(Operation *before) {
  int64_t rowSize = getRowSize(&MatrixRule::getGathered);
  builder.setInsertionPoint(before);
  if (shards == 1 || !rowSize)
    return;
  bool isAlone = count == 1;
  Values inputs;
  SmallVector<MemberAttr> members;
  for (int64_t rank = 0; rank < (isAlone ? 1 : shards); ++rank) {
    Group &group = getGroup(rank);
    Row row = getRow(group, &MatrixRule::getGathered);
    for (auto [i, value] : llvm::enumerate(group.rule->getGathered())) {
      Values parts = getLocals(group, value);
      inputs.push_back(
          parts[std::min<size_t>(rank - group.first, parts.size() - 1)]);
      members.push_back(
          getMember(rank * rowSize + row.offsets[i], row.bytes[i]));
    }
  }
  gathered =
      isAlone
          ? allGather(pack(inputs, members, getBytesType({rowSize})))
          : allToAll(pack(inputs, members, getBytesType({shards, rowSize})));
}

void MatrixRound::compute(Operation *before) {
  builder.setInsertionPoint(before);
  for (Group &group : groups)
    unpackMatrices(group);
  sendRows();
}

void MatrixRound::unpackMatrices(Group &group) {
  ArrayRef<Value> ofRule = group.rule->getGathered();
  if (ofRule.empty())
    return;
  if (!gathered) {
    for (Value value : ofRule)
      group.wholes.map(value, getLocals(group, value).front());
    return;
  }
  Row row = getRow(group, &MatrixRule::getGathered);
  int64_t rowSize = getRowSize(&MatrixRule::getGathered);
  // As it lies in buckets: row-major.
  auto getType = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return RankedTensorType::get(type.getShape(), type.getElementType());
  };
  auto take = [&](Value bucket, RankedTensorType type) {
    return unpack(
               bucket,
               getMember(0, getTensorBytes(type), /*blocks=*/1, group.shards),
               Type(type))
        .front();
  };
  if (rowSize == row.bytes.front()) {
    // Rows lie one after the other, the padding behind the last.
    group.wholes.map(ofRule.front(), take(gathered, getType(ofRule.front())));
    return;
  }
  SmallVector<MemberAttr> all;
  SmallVector<Type> types;
  for (auto [i, value] : llvm::enumerate(ofRule)) {
    all.push_back(getAll(group, row, i, rowSize));
    types.push_back(getPaddedType(getPartType(group, value), getType(value)));
  }
  Values unpacked = unpack(gathered, all, types);
  for (auto [value, padded] : llvm::zip_equal(ofRule, unpacked)) {
    RankedTensorType whole = getType(value);
    if (padded.getType() != whole) {
      int64_t bytes = getTensorBytes(cast<RankedTensorType>(padded.getType()));
      Value together =
          pack(padded, getMember(0, bytes, /*blocks=*/1, group.shards),
               getBytesType({bytes}));
      padded = take(together, whole);
    }
    group.wholes.map(value, padded);
  }
}

void MatrixRound::sendRows() {
  int64_t rowSize = getRowSize(&MatrixRule::getCrossing);
  Values computed;
  SmallVector<MemberAttr> all;
  for (Group &group : groups) {
    ArrayRef<Value> ofRule = group.rule->getCrossing();
    Values wholes;
    for (Value value : ofRule) {
      Value whole = getWhole(group, value);
      wholes.push_back(createRowMajor(builder, whole));
      if (wholes.back() != whole)
        restrict(group, wholes.back());
      if (shards == 1)
        group.locals[value] = {wholes.back()};
    }
    if (shards == 1)
      continue;
    Row row = getRow(group, &MatrixRule::getCrossing);
    for (auto [i, value] : llvm::enumerate(ofRule)) {
      computed.push_back(pad(group, wholes[i], getPartType(group, value)));
      all.push_back(getAll(group, row, i, rowSize));
    }
  }
  if (computed.empty())
    return;
  if (count > 1) {
    sent = allToAll(pack(computed, all, getBytesType({shards, rowSize})));
    return;
  }
  Value bucket = pack(computed, all, getBytesType({shards * rowSize}));
  sent = KeepOp::create(builder, loc, getBytesType({rowSize}), bucket, shards);
}

/// Each rank gets its rows of all the updates' results.
void MatrixRound::unpackRows() {
  if (!sent)
    return;
  int64_t rowSize = getRowSize(&MatrixRule::getCrossing);
  SmallVector<MemberAttr> members;
  SmallVector<Type> types;
  auto forEachPart = [&](auto fn) {
    for (Group &group : groups)
      for (size_t update = 0; update < group.updates.size(); ++update)
        for (auto [i, value] : llvm::enumerate(group.rule->getCrossing()))
          fn(group, update, i, value);
  };
  forEachPart([&](Group &group, size_t update, size_t i, Value value) {
    Row row = getRow(group, &MatrixRule::getCrossing);
    types.push_back(getPartType(group, value));
    members.push_back(getMember(
        (group.first + update) * rowSize + row.offsets[i], row.bytes[i]));
  });
  Values parts = unpack(sent, members, types);
  auto next = parts.begin();
  forEachPart([&](Group &group, size_t, size_t, Value value) {
    group.locals[value].push_back(*next++);
  });
}

Value MatrixRound::allGather(Value bucket) {
  RankedTensorType all = getBytesType(
      {shards * getTensorBytes(cast<RankedTensorType>(bucket.getType()))});
  movedBytes += getTensorBytes(all);
  return AllGatherOp::create(
      builder, loc, all, bucket, unit, builder.getStringAttr("update"),
      /*mapped=*/UnitAttr(), /*ranks=*/builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(*Mesh(last).getShardAxis()));
}

Value MatrixRound::allToAll(Value bucket) {
  movedBytes += getTensorBytes(cast<RankedTensorType>(bucket.getType()));
  return AllToAllOp::create(
      builder, loc, bucket.getType(), bucket, unit,
      builder.getI64IntegerAttr(*Mesh(last).getShardAxis()));
}

/// Gives a matrix as many rows on each rank.
Value MatrixRound::pad(Group &group, Value whole, RankedTensorType part) {
  auto type = cast<RankedTensorType>(whole.getType());
  RankedTensorType padded = getPaddedType(part, type);
  if (padded == type)
    return whole;
  // Pairs of (before, after), the last dimension first.
  SmallVector<int64_t> sizes(2 * type.getRank(), 0);
  sizes.back() = padded.getDimSize(0) - type.getDimSize(0);
  NamedAttribute args[] = {
      builder.getNamedAttr("pad", builder.getDenseI64ArrayAttr(sizes))};
  return restrict(group, call("constant_pad_nd", whole, args, padded));
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

Value MatrixRound::restrict(const Group &group, Value called) {
  auto made = called.getDefiningOp<aten::CallOp>();
  if (made && !made.isView() && group.shards)
    made->setAttr(kShardsAttrName, group.shards);
  return called;
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

RankedTensorType MatrixRound::getPartType(const Group &group,
                                          Value ofRule) const {
  UpdateOp any = group.updates.front();
  auto type = cast<RankedTensorType>(ofRule.getType());
  if (group.rule->isLikeParameter(type))
    return RankedTensorType::get(any.getGradient().getType().getShape(),
                                 type.getElementType());
  auto name =
      cast<FlatSymbolRefAttr>(any.getStates()[group.rule->getState(ofRule)])
          .getAttr();
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

MemberAttr MatrixRound::getMember(int64_t offset, int64_t bytes, int64_t blocks,
                                  ShardsAttr of) {
  return MemberAttr::get(builder.getContext(), offset, bytes, blocks, of);
}
