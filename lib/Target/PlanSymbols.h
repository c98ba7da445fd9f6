// What a plan names by number.

#ifndef FSDP_TARGET_PLANSYMBOLS_H
#define FSDP_TARGET_PLANSYMBOLS_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

#include <optional>

namespace fsdp {

/// What programs name, by its number in the plan.
struct PlanSymbols {
  llvm::StringMap<int> units, states, rules;

  /// -1 where no unit is named.
  int findUnit(std::optional<llvm::StringRef> name) const {
    auto it = name ? units.find(*name) : units.end();
    return it == units.end() ? -1 : it->second;
  }
};

} // namespace fsdp

#endif // FSDP_TARGET_PLANSYMBOLS_H
