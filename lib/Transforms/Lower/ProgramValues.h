// The values of a program as memory, while its ops become commands.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_PROGRAMVALUES_H
#define FSDP_LIB_TRANSFORMS_LOWER_PROGRAMVALUES_H

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace fsdp {

/// Maps each value to the `fsdp.cmd.value` that stands for its memory; new ones
/// are declared at the builder's insertion point.
class ProgramValues : public mlir::IRMapping {
public:
  ProgramValues(mlir::OpBuilder &builder, const ProgramLiveness &memory)
      : builder(builder), memory(memory) {}

  /// The memory of a value that the op before the insertion point writes: a
  /// state's, part of a bucket, or the program's own.
  mlir::Value declare(mlir::Value value) {
    if (mlir::Value declared = lookupOrNull(value))
      return declared;
    mlir::Value whole;
    if (auto part = memory.getAliases().getPart(value))
      whole = declare(part->whole);
    mlir::FlatSymbolRefAttr state;
    if (auto *storage = memory.getStorage(value);
        storage->state && storage->arena != kWindowArena)
      state = getSymbol(StateOp(storage->state));
    return declare(value, /*base=*/{}, whole, state);
  }

  /// The same bytes as `base`, which is declared, seen as `value`.
  mlir::Value declareView(mlir::Value value, mlir::Value base) {
    return declare(value, base, /*whole=*/{}, /*state=*/{});
  }

  /// A state's memory, as a value of no op.
  mlir::Value declareState(mlir::Location loc, StateOp state) {
    return CmdValueOp::create(builder, loc, state.getTensorType(),
                              mlir::Value(), mlir::Value(), getSymbol(state),
                              getPlace(state));
  }

  /// What may be copied as bytes: not a view, but all that the view looks into.
  mlir::Value getBytes(mlir::Value value) const {
    return lookup(memory.getAliases().getSameBytes(value));
  }

private:
  static mlir::FlatSymbolRefAttr getSymbol(StateOp state) {
    return mlir::FlatSymbolRefAttr::get(state.getSymNameAttr());
  }

  mlir::Value declare(mlir::Value value, mlir::Value base, mlir::Value whole,
                      mlir::FlatSymbolRefAttr state) {
    mlir::Value declared =
        CmdValueOp::create(builder, value.getLoc(), *getMemoryType(value), base,
                           whole, state, getPlace(value));
    map(value, declared);
    return declared;
  }

  mlir::OpBuilder &builder;
  const ProgramLiveness &memory;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_PROGRAMVALUES_H
