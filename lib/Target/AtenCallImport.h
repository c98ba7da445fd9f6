// One node of a graph.

#ifndef FSDP_LIB_TARGET_ATENCALLIMPORT_H
#define FSDP_LIB_TARGET_ATENCALLIMPORT_H

#include "ArchiveMetadata.h"
#include "fsdp/Dialect/Aten/Aten.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {

/// "float32" as an element type.
mlir::Type getElementType(mlir::MLIRContext *context, llvm::StringRef dtype);

/// The tensor type of a value, with its strides where they are not row-major.
mlir::RankedTensorType getTensorType(mlir::MLIRContext *context,
                                     const TensorInfo &info);

/// The type of a value, which has no shape in a rule.
mlir::Type getValueType(mlir::MLIRContext *context, const TensorInfo &info);

/// Turns nodes into `aten.call`s. Random sites are numbered in the order of
/// the calls, over all programs of a module.
class AtenCallImporter {
public:
  explicit AtenCallImporter(mlir::OpBuilder &builder) : builder(builder) {}

  /// Builds the call of `node` and adds its results to `values`. Throws
  /// ArchiveError where the node does not fit its schema or its description.
  void import(const TorchNode &node, const NodeInfo &info,
              const ProgramInfo &program, llvm::StringMap<mlir::Value> &values);

private:
  mlir::Location getLocation(const NodeInfo &info);
  /// Builds the op that a node is which is no call; null: it is one.
  mlir::Value importOther(const TorchNode &node, const NodeInfo &info,
                          const llvm::StringMap<mlir::Value> &values);

  mlir::OpBuilder &builder;
  int64_t nextSite = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ATENCALLIMPORT_H
