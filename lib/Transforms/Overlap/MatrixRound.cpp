// What updates need of whole matrices, computed in front of them.

#include "Overlap/MatrixRound.h"

#include "fsdp/Dialect/Aten/Work.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Programs.h"

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

// Ops

Operation *MatrixRound::clone(Operation *op, IRMapping &map) {
  Operation *copy = builder.clone(*op, map);
  if (auto call = dyn_cast<aten::CallOp>(copy))
    call.setBackward(true);
  return copy;
}

Value MatrixRound::call(StringRef callee, ValueRange operands,
                        ArrayRef<NamedAttribute> args, Type type) {
  return aten::CallOp::create(builder, loc, aten::Direction::Backward, callee,
                              operands, args, type)
      ->getResult(0);
}

Value MatrixRound::restrict(const Group &group, Value called) {
  auto made = called.getDefiningOp<aten::CallOp>();
  if (made && !made.isView() && group.shards)
    kShardsAttr.set(made, group.shards);
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
