// All ops of the fsdp dialect, a file per phase.

#ifndef FSDP_OPS_TD
#define FSDP_OPS_TD

include "fsdp/Dialect/FSDP/Captured.td"
include "fsdp/Dialect/FSDP/Sharded.td"
include "fsdp/Dialect/FSDP/Scheduled.td"
include "fsdp/Dialect/FSDP/Commands.td"

#endif // FSDP_OPS_TD
