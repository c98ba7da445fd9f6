// How ranks that have rows get the whole matrices that they compute with, and
// how the rows come back: what is packed, moved and unpacked in a round.

#include "Overlap/MatrixRound.h"

#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fsdp;

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
      builder, loc, all, bucket, unit.getValue(), ProgramRegion::Update,
      /*mapped=*/false, /*ranks=*/0, Mesh(last).getAxes(AxisRole::Shard));
}

Value MatrixRound::allToAll(Value bucket) {
  movedBytes += getTensorBytes(cast<RankedTensorType>(bucket.getType()));
  return AllToAllOp::create(
      builder, loc, bucket.getType(), bucket, unit,
      builder.getDenseI64ArrayAttr(Mesh(last).getAxes(AxisRole::Shard)));
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
