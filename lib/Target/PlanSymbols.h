// What a plan names by number.

#ifndef FSDP_TARGET_PLANSYMBOLS_H
#define FSDP_TARGET_PLANSYMBOLS_H

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <optional>
#include <type_traits>

namespace fsdp {

/// What programs name, by its number in the plan.
struct PlanSymbols {
  llvm::StringMap<int> units, states, rules;
  std::map<std::pair<llvm::StringRef, int64_t>, int> hyperparameters;

  /// Leaves `index` as it is where no unit is named.
  mlir::LogicalResult findUnit(mlir::Operation *op,
                               std::optional<llvm::StringRef> name,
                               int &index) const {
    if (!name)
      return mlir::success();
    auto it = units.find(*name);
    if (it == units.end())
      return op->emitOpError("names the unit \"")
             << *name << "\", which does not exist";
    index = it->second;
    return mlir::success();
  }
};

/// What a plan keeps in 32 bits. A larger number becomes the largest, which
/// names and counts nothing in a valid plan.
inline uint32_t toUInt32(int64_t number) {
  return std::clamp<int64_t>(number, 0, UINT32_MAX);
}

/// Sets `field` to the number that `op` has as an attribute; leaves it where
/// there is none.
template <typename Field>
mlir::LogicalResult setNumber(mlir::Operation *op,
                              DiscardableAttr<mlir::IntegerAttr> attribute,
                              Field &field) {
  mlir::IntegerAttr number = attribute.get(op);
  if (!number)
    return mlir::success();
  field = static_cast<Field>(number.getInt());
  if (static_cast<int64_t>(field) == number.getInt() &&
      (number.getInt() >= 0 || std::is_signed_v<Field>))
    return mlir::success();
  return op->emitError() << attribute.name << " is " << number
                         << ", not a number that a plan can hold";
}

} // namespace fsdp

#endif // FSDP_TARGET_PLANSYMBOLS_H
