// The slot of a call whose number is read from a tensor.

#ifndef FSDP_DIALECT_ATEN_ITEMSLOT_H
#define FSDP_DIALECT_ATEN_ITEMSLOT_H

#include <cstdint>

namespace fsdp::aten {

/// Stands where the schema takes a number: the operand is a tensor<f64>, whose
/// number is read when the call begins. `bindArguments` gives it as a Value.
inline constexpr int32_t kItemSlot = -1;

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_ITEMSLOT_H
