// PyTorch's dtypes as element types.

#include "fsdp/Dialect/Aten/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;

namespace {

// What the table writes for types that are no class of their own.
template <unsigned width> struct Int;
template <unsigned width> struct UInt;
template <typename Part> struct Complex;

template <typename T> struct Element {
  static Type get(MLIRContext *context) { return T::get(context); }
  static bool is(Type type) { return isa<T>(type); }
};

template <unsigned width> struct Element<Int<width>> {
  static Type get(MLIRContext *context) {
    return IntegerType::get(context, width);
  }
  static bool is(Type type) { return type.isSignlessInteger(width); }
};

template <unsigned width> struct Element<UInt<width>> {
  static Type get(MLIRContext *context) {
    return IntegerType::get(context, width, IntegerType::Unsigned);
  }
  static bool is(Type type) { return type.isUnsignedInteger(width); }
};

template <typename Part> struct Element<Complex<Part>> {
  static Type get(MLIRContext *context) {
    return ComplexType::get(Part::get(context));
  }
  static bool is(Type type) {
    auto complex = dyn_cast<ComplexType>(type);
    return complex && isa<Part>(complex.getElementType());
  }
};

} // namespace

Type aten::getElementType(MLIRContext *context, plan::DType dtype) {
  switch (dtype) {
#define FSDP_DTYPE(ENUM, NAME, BYTES, CLASS, SAFETENSORS, C10, MLIR)           \
  case plan::DType::ENUM:                                                      \
    return Element<MLIR>::get(context);
#include "plan/DTypes.def"
#undef FSDP_DTYPE
  }
  llvm_unreachable("a dtype without a row");
}

std::optional<plan::DType> aten::getDType(Type type) {
#define FSDP_DTYPE(ENUM, NAME, BYTES, CLASS, SAFETENSORS, C10, MLIR)           \
  if (Element<MLIR>::is(type))                                                 \
    return plan::DType::ENUM;
#include "plan/DTypes.def"
#undef FSDP_DTYPE
  return std::nullopt;
}
