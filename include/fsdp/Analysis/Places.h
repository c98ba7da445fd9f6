// Where the lowering notes streams and places.

#ifndef FSDP_ANALYSIS_PLACES_H
#define FSDP_ANALYSIS_PLACES_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/IR/BuiltinOps.h"
#include "plan/PlanTypes.h"

namespace fsdp {

/// A rank's own memory, states first; the window through which mapped gathers
/// show all ranks' states; and host memory, of what is offloaded.
inline constexpr int64_t kDeviceArena = plan::deviceArena,
                         kWindowArena = plan::windowArena,
                         kHostArena = plan::hostArena;
inline constexpr int64_t kNumArenas = std::size(plan::arenaNames);

/// The place noted for a value or a state; null where there is none.
PlaceAttr getPlace(mlir::Value value);
PlaceAttr getPlace(StateOp state);

/// Bytes of the arenas; empty before fsdp-plan-memory.
llvm::ArrayRef<int64_t> getArenaBytes(mlir::ModuleOp module);

/// The module path of an op, "blocks.0.attn", or empty: the name of the first
/// name location.
llvm::StringRef getModulePath(mlir::Location loc);

/// The line of the user's program that an op comes from, "gpt.py:31", or empty:
/// the first one of the location.
std::string getSourceLine(mlir::Location loc);

} // namespace fsdp

#endif // FSDP_ANALYSIS_PLACES_H
