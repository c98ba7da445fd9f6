// What a program for GPUs reads on the host.

#include "HostReads.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/HostReads.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fsdp;

static bool isMask(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isInteger(1) || element.isUnsignedInteger(8);
}

/// Of an attribute that is a number; 0 of all else.
static double getNumber(Attribute attribute) {
  if (auto real = dyn_cast_or_null<FloatAttr>(attribute))
    return real.getValueAsDouble();
  auto whole = dyn_cast_or_null<IntegerAttr>(attribute);
  return whole ? static_cast<double>(whole.getInt()) : 0;
}

/// Of a call of either phase.
template <typename CallT> static std::string describe(CallT call) {
  const aten::Schema *schema = aten::lookup(call.getCallee());
  if (!schema)
    return "";
  auto bound = aten::bindArguments(*schema, call.getInputs().getTypes(),
                                   call.getSlots(), call.getArgs(), {});
  if (failed(bound))
    return "";
  KernelCall kernel{schema->name, schema->overload};
  if (!call.getInputs().empty())
    kernel.isBFloat16 =
        getElementTypeOrSelf(call.getInputs()[0].getType()).isBF16();
  for (const aten::CallArgument &given : *bound) {
    for (int64_t i : given.operands)
      kernel.hasMask |= i >= 0 &&
                        given.kind == aten::CallArgument::Kind::ValueList &&
                        isMask(call.getInputs()[i].getType());
    if (given.argument->name == "min")
      kernel.min = getNumber(given.attribute);
    else if (given.argument->name == "max")
      kernel.max = getNumber(given.attribute);
  }
  const char *read = findHostRead(kernel);
  if (!read)
    return "";
  StringRef path = getModulePath(call.getLoc());
  return (schema->name + (path.empty() ? "" : " in " + path) + " reads " + read)
      .str();
}

std::string fsdp::describeHostRead(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  if (!module || !isForGpus(module))
    return "";
  if (auto call = dyn_cast<aten::CallOp>(op))
    return describe(call);
  if (auto call = dyn_cast<CmdAtenOp>(op))
    return describe(call);
  return "";
}
