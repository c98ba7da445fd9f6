#ifndef FSDP_DIALECT_REGISTRATION_H
#define FSDP_DIALECT_REGISTRATION_H

namespace mlir {
class DialectRegistry;
}

namespace fsdp {

/// Registers every dialect that a module may hold, in any phase. Where one of
/// them is loaded, an error names its op's location only: a training step
/// printed behind the message would bury it.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace fsdp

#endif // FSDP_DIALECT_REGISTRATION_H
