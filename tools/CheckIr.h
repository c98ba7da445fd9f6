// What a file is that holds no IR: MLIR's parser would say of its first word
// alone what is wrong with it, in words and lines of its own.
#ifndef FSDP_TOOLS_CHECKIR_H
#define FSDP_TOOLS_CHECKIR_H

#include "CheckFiles.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

namespace fsdp {

/// `text` behind what may stand before the first op of IR.
inline llvm::StringRef skipComments(llvm::StringRef text) {
  for (text = text.ltrim(); text.starts_with("//"); text = text.ltrim())
    text = text.drop_until([](char c) { return c == '\n'; });
  return text;
}

/// Whether IR may begin so: in bytecode, with a resource, a result, an
/// attribute's or a type's alias, or an op, whose name has its dialect before
/// it where it is none of the builtin ones.
inline bool mayBeIr(llvm::StringRef text) {
  if (text.empty() || text.starts_with("ML\xEFR") || text.starts_with("{-#") ||
      text[0] == '%')
    return true;
  if (text.size() > 1 && (text[0] == '#' || text[0] == '!' || text[0] == '"'))
    return llvm::isAlpha(text[1]);
  llvm::StringRef word = text.take_while(
      [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
  return word == "module" || word == "unrealized_conversion_cast" ||
         word.contains('.');
}

/// What a file is that begins so; empty where it may be IR.
inline llvm::StringRef otherKind(llvm::StringRef begin) {
  if (begin.starts_with("FSDPPLAN"))
    return "a plan; fsdp-translate --plan-to-text shows it";
  if (begin.starts_with("PK\x03\x04"))
    return "an archive; fsdp-translate --import-torchscript makes IR of it";
  return mayBeIr(skipComments(begin))
             ? ""
             : "no IR; give what fsdp-translate --import-torchscript or "
               "fsdp-opt wrote";
}

/// Fails, with an error, where a file is there and holds no IR.
inline mlir::LogicalResult checkIr(llvm::StringRef path) {
  if (failed(checkInput(path)))
    return mlir::failure();
  if (path == "-")
    return mlir::success();
  auto file = llvm::MemoryBuffer::getFile(path);
  llvm::StringRef kind = file ? otherKind((*file)->getBuffer()) : "";
  if (kind.empty())
    return mlir::success();
  printError(Error(E::Ir, ("'" + path + "' is " + kind).str()));
  return mlir::failure();
}

} // namespace fsdp

#endif // FSDP_TOOLS_CHECKIR_H
