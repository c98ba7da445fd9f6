// What a program for GPUs reads on the host.

#include "HostReads.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
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
  for (const aten::CallArgument &given : *bound)
    for (int64_t i : given.operands) {
      if (i < 0)
        continue;
      Type type = call.getInputs()[i].getType();
      kernel.hasMask |=
          given.kind == aten::CallArgument::Kind::ValueList && isMask(type);
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
