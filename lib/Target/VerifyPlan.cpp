// The plan's checker, run by the compiler: what it finds is said at the ops.

#include "fsdp/Target/PlanExport.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Diagnostics.h"

#include "plan/check/OperatorChecker.h"

using namespace mlir;
using namespace fsdp;

Operation *PlanOps::find(const plan::PlanEntry &entry) const {
  using Entry = plan::PlanEntry;
  switch (entry.kind) {
  case Entry::Unit:
    return units[entry.index];
  case Entry::State:
    return states[entry.index];
  case Entry::Rule:
    return rules[entry.index];
  case Entry::Call:
    return calls[entry.owner][entry.index];
  case Entry::Program:
    return programs[entry.index].function;
  case Entry::Value:
    return programs[entry.owner].values[entry.index];
  case Entry::Command:
    return programs[entry.owner].commands[entry.index];
  default:
    return nullptr;
  }
}

static void report(const ExportedPlan &exported, const plan::Finding &found) {
  const plan::PlanEntry &entry = found.entry;
  auto at = [&](plan::PlanEntry::Kind kind, size_t index) {
    return exported.ops.find({kind, index, entry.owner});
  };
  if (Operation *op = exported.ops.find(entry)) {
    InFlightDiagnostic error = ofKind(E::PlanConstraint, op->emitOpError())
                               << found.reason;
    if (found.other)
      error.attachNote(at(plan::PlanEntry::Command, *found.other)->getLoc())
          << "that command is here";
    return;
  }
  if (entry.kind >= plan::PlanEntry::Value)
    ofKind(E::PlanConstraint,
           at(plan::PlanEntry::Program, entry.owner)->emitError(found.what()));
  else
    ofKind(E::PlanConstraint, exported.module->emitError(found.what()));
}

LogicalResult fsdp::verifyPlan(ExportedPlan &exported) {
  bool isSound = true;
  auto found = [&](const plan::Finding &finding) {
    isSound = false;
    report(exported, finding);
  };
  plan::checkPlan(exported.plan, found);
  if (!isSound)
    return failure();
  try {
    plan::checkOperators(exported.plan, aten::findOperatorSchema);
    plan::settleMeanings(exported.plan, exported.said);
  } catch (const plan::Finding &finding) {
    found(finding);
  }
  return success(isSound);
}
