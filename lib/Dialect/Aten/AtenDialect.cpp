// Registration and attributes.

#include "fsdp/Dialect/Aten/Aten.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp::aten;

#include "fsdp/Dialect/Aten/AtenDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/Aten/AtenAttributes.cpp.inc"

void AtenDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/Dialect/Aten/AtenAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/Dialect/Aten/AtenOps.cpp.inc"
      >();
}

LogicalResult StridesAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    function_ref<InFlightDiagnostic()> emitError) const {
  if (getStrides().size() != shape.size())
    return emitError() << "#aten.strides has " << getStrides().size()
                       << " strides, the tensor has rank " << shape.size();
  if (llvm::any_of(getStrides(), [](int64_t stride) { return stride < 0; }))
    return emitError() << "#aten.strides has a negative stride";
  return success();
}

SmallVector<int64_t> fsdp::aten::getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

SmallVector<int64_t> fsdp::aten::getStrides(RankedTensorType type) {
  if (auto strides = dyn_cast_or_null<StridesAttr>(type.getEncoding()))
    return llvm::to_vector(strides.getStrides());
  return getRowMajorStrides(type.getShape());
}

RankedTensorType fsdp::aten::getTensorType(ArrayRef<int64_t> shape,
                                           Type elementType,
                                           ArrayRef<int64_t> strides) {
  if (getRowMajorStrides(shape) == strides)
    return RankedTensorType::get(shape, elementType);
  return RankedTensorType::get(
      shape, elementType, StridesAttr::get(elementType.getContext(), strides));
}
