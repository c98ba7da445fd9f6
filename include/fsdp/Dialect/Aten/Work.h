// How much work an operator does.

#ifndef FSDP_DIALECT_ATEN_WORK_H
#define FSDP_DIALECT_ATEN_WORK_H

#include "cost/Work.h"
#include "mlir/IR/TypeRange.h"

namespace fsdp::aten {

/// The work of a call that is not a view, by cost::workOf(). Operands that are
/// not tensors are left out.
cost::Work getWork(llvm::StringRef callee, mlir::TypeRange operands,
                   mlir::TypeRange results);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_WORK_H
