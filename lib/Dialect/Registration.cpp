#include "fsdp/Dialect/Registration.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

void fsdp::registerDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  shard::ShardDialect, aten::AtenDialect, FSDPDialect>();
  registry.addExtension(+[](MLIRContext *context, FSDPDialect *) {
    context->printOpOnDiagnostic(false);
  });
  printIdentifiers(registry);
}
