// How much work an operator does.

#ifndef FSDP_DIALECT_ATEN_WORK_H
#define FSDP_DIALECT_ATEN_WORK_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/TypeRange.h"

namespace fsdp::aten {

/// Operations (a multiply-add is two), bytes read and written, and the type
/// that the operations are done in.
struct Work {
  double flops = 0;
  double bytes = 0;
  mlir::Type elementType;
};

/// The work of a call that is no view. Operations of matrix products,
/// convolutions and attention are counted; of all else only the bytes.
/// Attention counts as if it were not causal, as model FLOPs are counted.
Work getWork(llvm::StringRef callee, mlir::TypeRange operands,
             mlir::TypeRange results);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_WORK_H
