// Phase 4, commands: the closed set that a rank executes.

#ifndef FSDP_COMMANDS_TD
#define FSDP_COMMANDS_TD

include "fsdp/Dialect/FSDP/Attributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

#endif // FSDP_COMMANDS_TD
