// Tests that unknown passes and options name the nearest one, and unknown values
// all that there are, that all of it is known before there is IR, and that
// remarks need a place.
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
// RUN: not fsdp-opt %s --fsdp-pipeline mesh=2 2>&1 | FileCheck %s --check-prefix=APART
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 reduce-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 remat=full,offload=all" 2>&1 | FileCheck %s --check-prefix=COMMA
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="mesh=2,units=auto" 2>&1 | FileCheck %s --check-prefix=COMMAS
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="mesh=2 prefech=2" 2>&1 | FileCheck %s --check-prefix=BEGINS
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 device=tpu" 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 reshard-after-forward=never" 2>&1 | FileCheck %s --check-prefix=RESHARD
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 shard-layout=rows" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 gather=map" 2>&1 | FileCheck %s --check-prefix=MAP
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=2 device=cuda shard-layout=flat gather=map" 2>&1 | FileCheck %s --check-prefix=MAPGPU
// RUN: not fsdp-opt %s --fsdp-shard="mesh=2 gather=zero" 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not fsdp-opt %s --fsdp-shard="mesh=2 accumulate-reduce=first" 2>&1 | FileCheck %s --check-prefix=ACCUMULATE
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="memory-budget-mib=many" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="bucket-cap-mib=" 2>&1 | FileCheck %s --check-prefix=CAP
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="cluster=h99" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="reduce-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=DTYPE
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="prefetch-backward=few" 2>&1 | FileCheck %s --check-prefix=PREFETCH
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="units= mesh=2" 2>&1 | FileCheck %s --check-prefix=UNITS
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="mesh=2x mesh-dims=a" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="mesh=2 mesh-dims=a,b" 2>&1 | FileCheck %s --check-prefix=NAMES
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="attention=best" 2>&1 | FileCheck %s --check-prefix=ATTENTION
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="kernel-table=times.toml" 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: not fsdp-opt --fsdp-check-options --fsdp-pipeline="remat=auto" 2>&1 | FileCheck %s --check-prefix=REMAT
// RUN: fsdp-opt --fsdp-check-options --fsdp-pipeline="mesh= reduce-dtype= memory-budget-mib= kernels=fast"

// COMMA: error: remat=full,offload=all does not exist; there are {{.*}} and auto; a space separates options [FSDP-E0402]
// COMMAS: error: mesh=2,units=auto is not a number of ranks {{.*}}; a space separates options [FSDP-E0407]
// BEGINS: error: fsdp-pipeline has no option prefech; the nearest is prefetch-backward, all are{{.*}} [FSDP-E0402]
// NEAREST: error: fsdp-pipeline has no option meshh; the nearest is mesh, all are{{.*}} [FSDP-E0402]
// TWICE: error: fsdp-pipeline: units is given more than once; leave one of them out [FSDP-E0402]
// PASS: error: there is no pass fsdp-shard-stat; the nearest is fsdp-shard-state [FSDP-E0402]
// DIMS: error: fsdp-shard-state has no option mesh-dim; the nearest is mesh-dims, all are mesh, mesh-dims, shard-layout [FSDP-E0402]
// MLIR: error: canonicalize has no option foo; fsdp-opt --help-all lists those that it has [FSDP-E0402]
// REMARKS: error: --remarks-output-file={{.*}}.none/file: there is no folder {{.*}}.none to write it into [FSDP-E0005]
// MALFORMED: error: {{.*}}missing closing '}' while processing pass options
// NEAR: error: fsdp-overlap has no option schedul; the nearest is schedule, all are bucket-cap-mib, cluster, memory-budget-mib, prefetch-backward, prefetch-forward, schedule
// APART: error: options of --fsdp-pipeline stand behind an '='; write --fsdp-pipeline="mesh=2" [FSDP-E0101]
// MESH: error: the mesh is not given; say how many ranks there are
// DTYPE: error: reduce-dtype=bf16 does not exist; there are bfloat16, float16, float32, float64
// DEVICE: error: device=tpu does not exist; there are cpu and cuda
// LAYOUT: error: shard-layout=rows does not exist; there are dim0 and flat
// MAP: error: gather=map needs shard-layout=flat: only flat pieces can be read in place [FSDP-E0403]
// MAPGPU: error: gather=map is for device=cpu: GPUs do not show each other's memory in one place, and would hold all parameters whole
// GATHER: error: gather=zero does not exist; there are auto, copy and map
// ACCUMULATE: error: accumulate-reduce=first does not exist; there are last and each
// NUMBER: error: memory-budget-mib=many is no number of MiB, as in 25 or 0.5 [FSDP-E0402]
// CAP: error: bucket-cap-mib= is no number of MiB
// CLUSTER: error: cluster=h99 is neither a preset nor a file; the presets are local, {{.*}} [FSDP-E0405]
// PREFETCH: error: prefetch-backward=few is neither auto nor a number of units
// UNITS: error: units= has no value; give auto (blocks), class:NAME, a number of bytes or {{.*}} [FSDP-E0402]
// RANKS: error: mesh=2x is not a number of ranks from 1 to 65536, {{.*}} [FSDP-E0407]
// NAMES: error: mesh-dims=a,b does not name the 1 dimension of mesh=2
// ATTENTION: error: attention=best does not exist; it is a list of flash, efficient and cudnn
// TABLE: error: kernel-table is read with kernels=fast; say so, or drop it [FSDP-E0403]
// REMAT: error: remat=auto needs memory-budget-mib
// RESHARD: error: reshard-after-forward=never does not exist; there are auto, true, false and a number of ranks
module {
  func.func @step() {
    return
  }
}
