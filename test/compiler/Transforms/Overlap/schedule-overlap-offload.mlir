// Tests when copies from and to the host run that belong to updates.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear offload=params" --fsdp-overlap --mlir-print-debuginfo=false | FileCheck %s --check-prefix=STAGED
// RUN: sed 's/seed = 0 : i64/clip_grad_norm = array<f64: 1.0, 2.0>/' %S/../Inputs/mlp.mlir | fsdp-opt --fsdp-shard="mesh=2 units=class:Linear offload=all" --fsdp-overlap --mlir-print-debuginfo=false | FileCheck %s --check-prefix=CLIPPED
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear reshard-after-forward=true" --fsdp-bucket-collectives --fsdp-offload-state="offload=params" --fsdp-convert-to-async --fsdp-schedule-overlap --mlir-print-debuginfo=false | FileCheck %s --check-prefix=SHARED

// What an update changes comes from the host while its gradient is reduced, and goes back beside the next update.
// STAGED-LABEL: func.func @step
// STAGED: %[[SUM:[0-9]+]] = fsdp.reduce_scatter_start {{.*}}unit = "blocks.1"
// STAGED-NEXT: %[[COPY:[0-9]+]] = fsdp.fetch_start %{{.*}} {region = #fsdp<region update>, unit = "blocks.1"}
// STAGED: fsdp.wait %[[SUM]]
// STAGED: fsdp.wait %[[COPY]]
// STAGED-NEXT: %[[NEW:[0-9]+]] = fsdp.update @sgd.0 @blocks.1.w
// STAGED-NEXT: %[[BACK:[0-9]+]] = fsdp.offload_start %[[NEW]] {into = @blocks.1.w, unit = "blocks.1"}
// STAGED: fsdp.update @sgd.0 @blocks.0.w
// STAGED: fsdp.wait %[[BACK]]

// The norm of all gradients bounds each: they go to the host before it is known, and are scaled there.
// CLIPPED-LABEL: func.func @step
// CLIPPED: fsdp.wait {{.*}} : <tensor<16xf32>>
// CLIPPED: %[[G:[0-9]+]] = fsdp.offload_start {{.*}} {unit = "blocks.1"} : <tensor<16xf32>>
// CLIPPED: fsdp.wait %[[G]]
// CLIPPED: fsdp.all_reduce_start sum norm
// CLIPPED: %[[F:[0-9]+]] = fsdp.wait %{{.*}} : <tensor<f32>>
// CLIPPED: fsdp.update @sgd.0 @blocks.0.w, %{{.*}} scale %[[F]] : tensor<f32>

// One copy that the gathers of forward and of backward both send on is there before the first of them starts.
// SHARED-LABEL: func.func @step
// SHARED: %[[COPY:[0-9]+]] = fsdp.fetch_start {{.*}}unit = "blocks.1"
// SHARED: %[[PART:[0-9]+]] = fsdp.wait %[[COPY]]
// SHARED: %[[SENT:[0-9]+]] = fsdp.pack %[[PART]]
// SHARED: fsdp.all_gather_start %[[SENT]] {region = #fsdp<region forward>
// SHARED: %[[AGAIN:[0-9]+]] = fsdp.pack %[[PART]]
// SHARED: fsdp.all_gather_start %[[AGAIN]] {region = #fsdp<region backward>
