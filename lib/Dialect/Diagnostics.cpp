#include "fsdp/Dialect/Diagnostics.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/FormatText.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/Support/CommandLine.h"

#include <atomic>
#include <cstdlib>

using namespace mlir;

namespace fsdp {

/// Empty where the texts of errors already end with their identifiers.
static thread_local std::optional<E> kindOfThread = E::Ir;
static std::atomic<bool> hasPrinted = false;

InFlightDiagnostic ofKind(E kind, InFlightDiagnostic diagnostic) {
  if (Diagnostic *inner = diagnostic.getUnderlyingDiagnostic())
    inner->getMetadata().push_back(
        DiagnosticArgument(static_cast<int64_t>(kind)));
  return diagnostic;
}

KindOfErrors::KindOfErrors(std::optional<E> kind) : outer(kindOfThread) {
  kindOfThread = kind;
}

KindOfErrors::~KindOfErrors() { kindOfThread = outer; }

/// Whether a program compares its errors with those that a test expects.
static bool verifiesDiagnostics() {
  llvm::cl::Option *flag =
      llvm::cl::getRegisteredOptions().lookup("verify-diagnostics");
  return flag && flag->getNumOccurrences() > 0;
}

/// Prints a diagnostic whose location is in no file, with the location's name
/// if it has one. MLIR would print `<unknown>:0`.
static LogicalResult printWithoutFile(Diagnostic &diagnostic) {
  Location place = diagnostic.getLocation();
  if (place->findInstanceOf<FileLineColLoc>() || verifiesDiagnostics())
    return failure();
  std::string text = diagnostic.str();
  llvm::errs() << "error: ";
  if (auto named = place->findInstanceOf<NameLoc>())
    if (!StringRef(text).contains(named.getName().getValue()))
      llvm::errs() << named.getName().getValue() << ": ";
  llvm::errs() << text << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << "note: " << note.str() << "\n";
  return success();
}

/// Ends an error with its identifier, once. MLIR's own handler prints it where
/// its location is in a file.
static LogicalResult identify(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
    return failure();
  using Kind = DiagnosticArgument::DiagnosticArgumentKind;
  constexpr StringRef done = "identified";
  std::optional<E> kind = kindOfThread;
  for (DiagnosticArgument &fact : diagnostic.getMetadata()) {
    if (fact.getKind() == Kind::String && fact.getAsString() == done)
      return failure();
    if (fact.getKind() == Kind::Integer)
      kind = static_cast<E>(fact.getAsInteger());
  }
  diagnostic.getMetadata().push_back(DiagnosticArgument(done));
  if (kind)
    diagnostic << " [" << identifierOf(*kind) << "]";
  hasPrinted = true;
  return printWithoutFile(diagnostic);
}

/// Registers `identify` when a dialect is loaded. That is after the programs
/// have registered their handlers, and the last handler is asked first.
template <typename Dialect> static void addTo(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, Dialect *) {
    context->getDiagEngine().registerHandler(identify);
  });
}

void printIdentifiers(DialectRegistry &registry) {
  addTo<FSDPDialect>(registry);
  addTo<aten::AtenDialect>(registry);
  addTo<func::FuncDialect>(registry);
}

void printError(const std::exception &error) {
  llvm::errs() << "error: "
               << visible(withIdentifier(error.what(), kindOf(error))) << "\n";
  hasPrinted = true;
}

LogicalResult failAs(E kind, function_ref<LogicalResult(const Twine &)> fail,
                     const Twine &text) {
  KindOfErrors said(std::nullopt);
  hasPrinted = true;
  return fail(withIdentifier(text.str(), kind));
}

void printIdentifierIfNone(E kind) {
  if (!hasPrinted.exchange(true))
    llvm::errs() << "note: this error is " << identifierOf(kind) << "\n";
}

void identifyBadFlags() {
  on_exit(
      [](int status, void *) {
        if (status)
          printIdentifierIfNone(E::Flag);
      },
      nullptr);
}

} // namespace fsdp
