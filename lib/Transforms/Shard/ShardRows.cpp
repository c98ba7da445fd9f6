// Tensors that are split on another dimension than the first, as rows that
// ranks exchange.

#include "Shard/ShardRows.h"

#include "fsdp/Dialect/Aten/Aten.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// Builds the calls of a rearrangement, one behind the other.
class Rearranging {
public:
  Rearranging(OpBuilder &builder, Value value, aten::Direction direction)
      : builder(builder), value(value), direction(direction) {}

  RankedTensorType getType() const {
    return cast<RankedTensorType>(value.getType());
  }
  void view(ArrayRef<int64_t> shape) {
    call("view", {named("size", shape)},
         RankedTensorType::get(shape, getType().getElementType()));
  }
  void permute(ArrayRef<int64_t> dims) {
    SmallVector<int64_t> shape, strides;
    SmallVector<int64_t> before = aten::getStrides(getType());
    for (int64_t dim : dims) {
      shape.push_back(getType().getDimSize(dim));
      strides.push_back(before[dim]);
    }
    call("permute", {named("dims", dims)},
         aten::getTensorType(shape, getType().getElementType(), strides));
  }
  void makeRowMajor() {
    call("clone",
         {builder.getNamedAttr("memory_format", builder.getI64IntegerAttr(0))},
         RankedTensorType::get(getType().getShape(),
                               getType().getElementType()));
  }
  Value get() const { return value; }

private:
  NamedAttribute named(StringRef name, ArrayRef<int64_t> list) {
    return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(list));
  }
  void call(StringRef callee, ArrayRef<NamedAttribute> args,
            RankedTensorType type) {
    auto op = aten::CallOp::create(builder, value.getLoc(), direction, callee,
                                   value, args, type);
    value = op->getResult(0);
  }

  OpBuilder &builder;
  Value value;
  aten::Direction direction;
};

} // namespace

Value fsdp::partsToRows(OpBuilder &builder, Value whole, int64_t dim,
                        int64_t shards, aten::Direction direction) {
  Rearranging it(builder, whole, direction);
  // [a, b] to [a, shards, b / shards], and the shards to the front.
  SmallVector<int64_t> shape(it.getType().getShape());
  shape[dim] /= shards;
  SmallVector<int64_t> rows = shape;
  rows[0] *= shards;
  shape.insert(shape.begin() + dim, shards);
  it.view(shape);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::rotate(dims.begin(), dims.begin() + dim, dims.begin() + dim + 1);
  it.permute(dims);
  it.makeRowMajor();
  it.view(rows);
  return it.get();
}

Value fsdp::rowsToWhole(OpBuilder &builder, Value rows, RankedTensorType whole,
                        int64_t dim, int64_t shards,
                        aten::Direction direction) {
  Rearranging it(builder, rows, direction);
  SmallVector<int64_t> shape(whole.getShape());
  shape[dim] /= shards;
  shape.insert(shape.begin(), shards);
  it.view(shape);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::rotate(dims.begin(), dims.begin() + 1, dims.begin() + dim + 1);
  it.permute(dims);
  it.makeRowMajor();
  it.view(whole.getShape());
  return it.get();
}
