// What an argument is where a call does not give it.

#include "fsdp/Dialect/Aten/CallArguments.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "mlir/IR/Builders.h"

#include <cstdlib>

using namespace mlir;
using namespace fsdp::aten;

Attribute fsdp::aten::getDefaultAttr(MLIRContext *context,
                                     const Argument &argument) {
  if (!argument.defaultText)
    return {};
  StringRef text = *argument.defaultText;
  if (text == "none")
    return UnitAttr::get(context);
  Builder builder(context);
  char letter = text.front();
  text = text.drop_front();
  SmallVector<StringRef, 4> members;
  text.split(members, ',', -1, /*KeepEmpty=*/false);
  auto toInt = [](StringRef s) -> int64_t {
    return std::strtoll(s.str().c_str(), nullptr, 10);
  };
  auto toDouble = [](StringRef s) {
    return std::strtod(s.str().c_str(), nullptr);
  };
  switch (letter) {
  case 'b':
    return builder.getBoolAttr(text == "1");
  case 'i':
    // A floating argument may have an integer for its default.
    if (argument.type.kind == Kind::Float)
      return builder.getF64FloatAttr(toDouble(text));
    return builder.getI64IntegerAttr(toInt(text));
  case 'f':
    return builder.getF64FloatAttr(toDouble(text));
  case 's':
    return builder.getStringAttr(text);
  case 'I':
    return builder.getDenseI64ArrayAttr(llvm::map_to_vector(members, toInt));
  case 'F':
    return builder.getDenseF64ArrayAttr(llvm::map_to_vector(members, toDouble));
  case 'B':
    return builder.getDenseBoolArrayAttr(
        llvm::map_to_vector(members, [](StringRef s) { return s == "1"; }));
  }
  return {};
}
