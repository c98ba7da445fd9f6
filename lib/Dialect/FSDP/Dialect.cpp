// Registration, attributes and types of fsdp.

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

#include "fsdp/Dialect/FSDP/FSDPDialect.cpp.inc"
#include "fsdp/Dialect/FSDP/FSDPEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPTypes.cpp.inc"

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/FSDPOps.cpp.inc"

void FSDPDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/Dialect/FSDP/FSDPAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fsdp/Dialect/FSDP/FSDPTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/Dialect/FSDP/FSDPOps.cpp.inc"
      >();
}

int64_t fsdp::getElementBytes(Type elementType) {
  if (auto complex = dyn_cast<ComplexType>(elementType))
    return 2 * getElementBytes(complex.getElementType());
  if (!elementType.isIntOrFloat())
    return 0;
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t fsdp::getTensorBytes(RankedTensorType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

LogicalResult MemberAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t offset, int64_t bytes,
                                 int64_t blocks) {
  if (offset < 0 || offset % kAlignment)
    return emitError() << "a member's offset is a multiple of " << kAlignment
                       << ", not " << offset;
  if (bytes < 0 || blocks < 1)
    return emitError() << "a member has at least one block of at least 0 "
                          "bytes, not "
                       << blocks << " of " << bytes;
  return success();
}

LogicalResult PieceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t source, int64_t destination,
                                int64_t bytes, int64_t blocks,
                                int64_t sourceOffset, int64_t destinationOffset,
                                int64_t sourceStride, int64_t destinationStride,
                                int64_t owners) {
  if (source < -1 || destination < 0)
    return emitError() << "a piece has a source or -1, and a destination, not "
                       << source << " and " << destination;
  if (bytes < 1 || blocks < 1)
    return emitError() << "a piece has at least one block of at least one "
                          "byte, not "
                       << blocks << " of " << bytes;
  if (sourceOffset < 0 || destinationOffset < 0 || sourceStride < 0 ||
      destinationStride < 0)
    return emitError() << "a piece's offsets and strides are not negative";
  if (owners < 1 || (owners > 1 && source < 0))
    return emitError() << "a piece is one of at least one owner's, of a source";
  return success();
}

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               InitKind kind, DenseF64ArrayAttr values,
                               int64_t draw, int64_t offset,
                               DenseI64ArrayAttr sizes,
                               DenseI64ArrayAttr strides) {
  // By kind.
  constexpr size_t wanted[] = {1, 2, 2, 1, 1, 2, 0};
  size_t given = values ? values.size() : 0;
  if (given != wanted[static_cast<size_t>(kind)])
    return emitError() << stringifyInitKind(kind) << " takes "
                       << wanted[static_cast<size_t>(kind)] << " values, not "
                       << given;
  if (bool(sizes) != bool(strides) || (sizes && sizes.size() != strides.size()))
    return emitError() << "sizes and strides go together, one of each per "
                          "dimension";
  if (draw < 0 || draw > UINT32_MAX || offset < 0)
    return emitError() << "a draw is a number of 32 bits, an offset is not "
                          "negative";
  return success();
}

LogicalResult PlaceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t arena, int64_t offset, int64_t bytes) {
  if (arena < 0 || bytes < 0)
    return emitError() << "a place has a non-negative arena and length";
  if (offset < 0 || offset % kAlignment)
    return emitError() << "a place's offset is a multiple of " << kAlignment
                       << ", not " << offset;
  return success();
}
