// Tests that unknown options name the nearest one, and unknown values all that
// there are.
// RUN: not fsdp-opt %s --fsdp-pipeline="meshh=2" 2>&1 | FileCheck %s --check-prefix=NEAREST
// RUN: not fsdp-opt %s --fsdp-overlap="schedul=naive" 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not fsdp-opt %s --fsdp-pipeline 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 reduce-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 device=tpu" 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 reshard-after-forward=never" 2>&1 | FileCheck %s --check-prefix=RESHARD
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 shard-layout=rows" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 gather=map" 2>&1 | FileCheck %s --check-prefix=MAP
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 device=cuda shard-layout=flat gather=map" 2>&1 | FileCheck %s --check-prefix=MAPGPU
// RUN: not fsdp-opt %s --fsdp-shard="mesh=2 gather=zero" 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not fsdp-opt %s --fsdp-shard="mesh=2 accumulate-reduce=first" 2>&1 | FileCheck %s --check-prefix=ACCUMULATE

// NEAREST: error: fsdp-pipeline has no option meshh; the nearest is mesh, all are{{.*}} [FSDP-E0402]
// NEAR: error: fsdp-overlap has no option schedul; the nearest is schedule, all are bucket-cap-mib, cluster, memory-budget-mib, prefetch-backward, prefetch-forward, schedule
// MESH: error: the mesh is not given; say how many ranks there are
// DTYPE: error: reduce-dtype=bf16 does not exist; there are bfloat16, float16, float32, float64
// DEVICE: error: device=tpu does not exist; there are cpu and cuda
// LAYOUT: error: shard-layout=rows does not exist; there are dim0 and flat
// MAP: error: gather=map needs shard-layout=flat: only flat pieces can be read in place [FSDP-E0403]
// MAPGPU: error: gather=map is for device=cpu: GPUs do not show each other's memory in one place, and would hold all parameters whole
// GATHER: error: gather=zero does not exist; there are auto, copy and map
// ACCUMULATE: error: accumulate-reduce=first does not exist; there are last and each
// RESHARD: error: reshard-after-forward=never does not exist; there are auto, true, false and a number of ranks
module {
  func.func @step() {
    return
  }
}
