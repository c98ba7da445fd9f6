// Errors of the compiler, with their identifiers.
#ifndef FSDP_DIALECT_DIAGNOSTICS_H
#define FSDP_DIALECT_DIAGNOSTICS_H

#include "Error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"

#include <optional>

namespace fsdp {

/// Says what kind of error a diagnostic is:
///
///     return ofKind(E::Option, module.emitError()) << "mesh=" << text;
mlir::InFlightDiagnostic ofKind(E kind, mlir::InFlightDiagnostic diagnostic);

/// While it lives, errors of this thread that do not say their kind are of this
/// one. Outside of any they are E::Ir: the parser's and the verifiers'.
class KindOfErrors {
public:
  explicit KindOfErrors(E kind) : KindOfErrors(std::optional(kind)) {}
  ~KindOfErrors();
  KindOfErrors(const KindOfErrors &) = delete;
  KindOfErrors &operator=(const KindOfErrors &) = delete;

private:
  friend mlir::LogicalResult
  failAs(E, llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>,
         const llvm::Twine &);
  explicit KindOfErrors(std::optional<E> kind);

  std::optional<E> outer;
};

/// Puts identifiers behind the errors of each context that loads one of the
/// registry's dialects, where they are printed.
void printIdentifiers(mlir::DialectRegistry &registry);

/// Prints an error that is no diagnostic of a context.
void printError(const std::exception &error);

/// Fails by a handler that takes a text alone, and may have no context that
/// prints identifiers.
mlir::LogicalResult
failAs(E kind,
       llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> fail,
       const llvm::Twine &text);

/// Names the kind where a program has failed by words of MLIR's or LLVM's
/// alone: before a dialect of ours was met.
void printIdentifierIfNone(E kind);

/// Has that said of flags where LLVM's parser of them ends the program.
void identifyBadFlags();

} // namespace fsdp

#endif // FSDP_DIALECT_DIAGNOSTICS_H
