// All passes and pipelines.

#ifndef FSDP_TRANSFORMS_PASSES_H
#define FSDP_TRANSFORMS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fsdp {

#define GEN_PASS_DECL
#include "fsdp/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fsdp/Transforms/Passes.h.inc"

/// Registers the pipelines `fsdp-shard`, `fsdp-overlap`, `fsdp-lower` and
/// `fsdp-pipeline`, which is the three in a row.
void registerPipelines();

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PASSES_H
