// Calls that take the place of another device's.

#include "KernelCalls.h"

#include "fsdp/Analysis/RematRegions.h"

using namespace mlir;
using namespace fsdp;

aten::CallOp fsdp::getCall(Value value, StringRef callee) {
  auto call = value ? value.getDefiningOp<aten::CallOp>() : aten::CallOp();
  return call && call.getCallee() == callee ? call : aten::CallOp();
}

aten::CallOp KernelCalls::create(StringRef callee, ValueRange operands,
                                 ArrayRef<NamedAttribute> args,
                                 TypeRange results) {
  // As everywhere, only what differs from the schema's default is written.
  const aten::Schema *schema = aten::lookup(callee);
  SmallVector<NamedAttribute> written;
  llvm::copy_if(args, std::back_inserter(written), [&](NamedAttribute arg) {
    const aten::Argument *argument = schema->findArgument(arg.getName());
    return arg.getValue() !=
           aten::getDefaultAttr(builder.getContext(), *argument);
  });
  auto call =
      aten::CallOp::create(builder, before.getLoc(), before.getDirection(),
                           callee, operands, written, results);
  call.takePlaceOf(before);
  return call;
}

Value KernelCalls::prepare(StringRef callee, Value operand,
                           ArrayRef<NamedAttribute> args, Type result) {
  aten::CallOp call = create(callee, operand, args, result);
  call.setMustSave(false);
  return call->getResult(0);
}

Value KernelCalls::cast(Value value, Type elementType) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  if (type.getElementType() == elementType)
    return value;
  return prepare(
      "_to_copy", value, named("dtype", TypeAttr::get(elementType)),
      RankedTensorType::get(type.getShape(), elementType, type.getEncoding()));
}

Value KernelCalls::alignRows(Value value, int64_t alignment) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> strides = aten::getStrides(type);
  if (strides.back() == 1 &&
      llvm::all_of(ArrayRef(strides).drop_back(),
                   [&](int64_t stride) { return stride % alignment == 0; }))
    return value;
  int64_t columns = type.getShape().back();
  value = resizeRows(value, (columns / alignment + 1) * alignment);
  return prepare(
      "slice.Tensor", value,
      {number("dim", type.getRank() - 1), number("start", 0),
       number("end", columns)},
      aten::getTensorType(
          type.getShape(), type.getElementType(),
          aten::getStrides(llvm::cast<RankedTensorType>(value.getType()))));
}

Value KernelCalls::resizeRows(Value value, int64_t columns, Type result) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t more = columns - shape.back();
  shape.back() = columns;
  if (!result)
    result = RankedTensorType::get(shape, type.getElementType());
  return prepare("constant_pad_nd", value, numbers("pad", {0, more}), result);
}

Value KernelCalls::expand(Value value, ArrayRef<int64_t> shape) {
  auto type = llvm::cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  SmallVector<int64_t> given = aten::getStrides(type), strides(shape.size());
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    int64_t dim = i - int64_t(shape.size()) + type.getRank();
    int64_t size = dim >= 0 ? type.getDimSize(dim) : 1;
    int64_t stride = dim >= 0 ? given[dim] : shape[i + 1] * strides[i + 1];
    strides[i] = size == shape[i] ? stride : 0;
  }
  return prepare("expand", value, numbers("size", shape),
                 aten::getTensorType(shape, type.getElementType(), strides));
}

Value KernelCalls::repeatHeads(Value groups, int64_t heads) {
  auto type = llvm::cast<RankedTensorType>(groups.getType());
  SmallVector<int64_t> shape(type.getShape());
  int64_t repeats = heads / shape[1];
  if (repeats == 1)
    return groups;
  shape[1] = heads;
  return prepare("repeat_interleave.self_int", groups,
                 {number("repeats", repeats), number("dim", 1)},
                 RankedTensorType::get(shape, type.getElementType()));
}

Value KernelCalls::sumHeads(Value gradient, Type groups) {
  auto type = llvm::cast<RankedTensorType>(gradient.getType());
  int64_t heads = llvm::cast<RankedTensorType>(groups).getDimSize(1);
  int64_t repeats = type.getDimSize(1) / heads;
  if (repeats == 1)
    return gradient;
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<int64_t> strides = aten::getStrides(type);
  shape[1] = heads;
  shape.insert(shape.begin() + 2, repeats);
  strides.insert(strides.begin() + 1, strides[1] * repeats);
  Value view =
      prepare("view", gradient, numbers("size", shape),
              aten::getTensorType(shape, type.getElementType(), strides));
  return prepare("sum.dim_IntList", view, numbers("dim", {2}), groups);
}
