// Tests that unknown passes and options name the nearest one, and unknown values
// all that there are, and that remarks need a place.
// RUN: not fsdp-opt %s --fsdp-pipeline="meshh=2" 2>&1 | FileCheck %s --check-prefix=NEAREST
// RUN: not fsdp-opt %s --fsdp-overlap="schedul=naive" 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 units=all units=class:Block" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fsdp-opt %s --pass-pipeline="builtin.module(cse,func.func(canonicalize),fsdp-shard-stat{mesh=2})" 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not fsdp-opt %s --pass-pipeline="builtin.module(fsdp-pipeline{meshh=2 cluster={local}},cse)" 2>&1 | FileCheck %s --check-prefix=NEAREST --implicit-check-not=E0401 --implicit-check-not="failed to add"
// RUN: not fsdp-opt %s --pass-pipeline="builtin.module(cse,fsdp-shard-state{mesh-dim=a})" 2>&1 | FileCheck %s --check-prefix=DIMS --implicit-check-not=E0401
// RUN: not fsdp-opt %s --pass-pipeline="builtin.module(canonicalize{foo=1})" 2>&1 | FileCheck %s --check-prefix=MLIR --implicit-check-not=E0401
// RUN: not fsdp-opt %s --pass-pipeline="builtin.module(fsdp-shard-state{device=tpu,cse)" 2>&1 | FileCheck %s --check-prefix=MALFORMED
// RUN: fsdp-opt %s --pass-pipeline="builtin.module(cse, func.func(canonicalize{top-down=false}) , fsdp-verify-async)" -o /dev/null
// RUN: not fsdp-opt %s --cse --remark-format=yaml --remarks-filter=fsdp.* --remarks-output-file=%t.none/file 2>&1 | FileCheck %s --check-prefix=REMARKS
// RUN: not fsdp-opt %s --fsdp-pipeline 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 reduce-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 remat=full,offload=all" 2>&1 | FileCheck %s --check-prefix=COMMA
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 device=tpu" 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 reshard-after-forward=never" 2>&1 | FileCheck %s --check-prefix=RESHARD
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 shard-layout=rows" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 gather=map" 2>&1 | FileCheck %s --check-prefix=MAP
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 device=cuda shard-layout=flat gather=map" 2>&1 | FileCheck %s --check-prefix=MAPGPU
// RUN: not fsdp-opt %s --fsdp-shard="mesh=2 gather=zero" 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not fsdp-opt %s --fsdp-shard="mesh=2 accumulate-reduce=first" 2>&1 | FileCheck %s --check-prefix=ACCUMULATE

// COMMA: error: remat=full,offload=all does not exist; there are {{.*}} and auto; a space separates options [FSDP-E0402]
// NEAREST: error: fsdp-pipeline has no option meshh; the nearest is mesh, all are{{.*}} [FSDP-E0402]
// TWICE: error: fsdp-pipeline: units is given more than once; leave one of them out [FSDP-E0402]
// PASS: error: there is no pass fsdp-shard-stat; the nearest is fsdp-shard-state [FSDP-E0402]
// DIMS: error: fsdp-shard-state has no option mesh-dim; the nearest is mesh-dims, all are mesh, mesh-dims, shard-layout [FSDP-E0402]
// MLIR: error: canonicalize has no option foo; fsdp-opt --help-all lists those that it has [FSDP-E0402]
// REMARKS: error: --remarks-output-file={{.*}}.none/file: there is no folder {{.*}}.none to write it into [FSDP-E0005]
// MALFORMED: error: {{.*}}missing closing '}' while processing pass options
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
