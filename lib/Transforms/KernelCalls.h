// Calls that take the place of another device's.

#ifndef FSDP_LIB_TRANSFORMS_KERNELCALLS_H
#define FSDP_LIB_TRANSFORMS_KERNELCALLS_H

#include "fsdp/Dialect/Aten/Aten.h"

#include "mlir/IR/Builders.h"

namespace fsdp {

/// The call of this name that gives a value; null where that is another, or the
/// value is null.
aten::CallOp getCall(mlir::Value value, llvm::StringRef callee);

/// Builds calls in front of one that they replace, and that belong where it
/// does: to its direction, module and checkpoint.
class KernelCalls {
public:
  explicit KernelCalls(aten::CallOp before) : builder(before), before(before) {}

  aten::CallOp create(llvm::StringRef callee, mlir::ValueRange operands,
                      llvm::ArrayRef<mlir::NamedAttribute> args,
                      mlir::TypeRange results);

  mlir::NamedAttribute named(llvm::StringRef name, mlir::Attribute value) {
    return builder.getNamedAttr(name, value);
  }
  mlir::NamedAttribute number(llvm::StringRef name, int64_t value) {
    return named(name, builder.getI64IntegerAttr(value));
  }
  mlir::NamedAttribute numbers(llvm::StringRef name,
                               llvm::ArrayRef<int64_t> values) {
    return named(name, builder.getDenseI64ArrayAttr(values));
  }
  mlir::NamedAttribute boolean(llvm::StringRef name, bool value) {
    return named(name, builder.getBoolAttr(value));
  }

  /// `value` with elements of this type.
  mlir::Value cast(mlir::Value value, mlir::Type elementType);

  /// `value`, or a copy, of which each row starts at a multiple of `alignment`
  /// elements.
  mlir::Value alignRows(mlir::Value value, int64_t alignment);

  /// `value` seen in the shape that it broadcasts to.
  mlir::Value expand(mlir::Value value, llvm::ArrayRef<int64_t> shape);

  /// `value` with rows of this many elements: zeros behind them, or less of
  /// them. Of type `result`; row-major where that is null.
  mlir::Value resizeRows(mlir::Value value, int64_t columns,
                         mlir::Type result = {});

  /// Groups of [batch, heads, length, size], a head for each of `heads`.
  mlir::Value repeatHeads(mlir::Value groups, int64_t heads);

  /// The gradient of what `repeatHeads` was given, of type `groups`.
  mlir::Value sumHeads(mlir::Value gradient, mlir::Type groups);

  mlir::OpBuilder builder;

private:
  /// What prepares an operand is not what a checkpoint's policy keeps.
  mlir::Value prepare(llvm::StringRef callee, mlir::Value operand,
                      llvm::ArrayRef<mlir::NamedAttribute> args,
                      mlir::Type result);

  aten::CallOp before;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_KERNELCALLS_H
