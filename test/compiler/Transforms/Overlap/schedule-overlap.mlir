// Tests each schedule's order of one step, what it is predicted to cost, and
// that depths and a memory budget shorten flights.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=naive" | FileCheck %s --check-prefix=NAIVE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=fsdp2" | FileCheck %s --check-prefix=FSDP2
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=overlap" | FileCheck %s --check-prefix=OVERLAP
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="prefetch-forward=0 prefetch-backward=0" | FileCheck %s --check-prefix=DEPTH
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="memory-budget-mib=0.00095" | FileCheck %s --check-prefix=BUDGET
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap -o /dev/null --remarks-filter=fsdp-schedule-overlap --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// A collective is waited for where it starts.
// NAIVE-LABEL: func.func @step
// NAIVE-SAME: fsdp.schedule = "naive"
// NAIVE: all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.0"
// NAIVE-NEXT: fsdp.wait
// NAIVE: "mm"
// NAIVE: all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.1"
// NAIVE-NEXT: fsdp.wait

// The next gather starts when the one before it is there; gradients are sent
// before more is unpacked; one reduction is in flight; updates come last.
// FSDP2-LABEL: func.func @step
// FSDP2: %[[G0:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.0"
// FSDP2: fsdp.wait %[[G0]]
// FSDP2: %[[G1:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.1"
// FSDP2: "mm"
// FSDP2: fsdp.wait %[[G1]]
// FSDP2: all_gather_start {{.*}}region = #fsdp<region forward>, unit = ""
// FSDP2: %[[B1:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region backward>, unit = "blocks.1"
// FSDP2: %[[R1:.*]] = fsdp.reduce_scatter_start {{.*}}unit = "blocks.1"
// FSDP2: fsdp.wait %[[B1]]
// FSDP2: fsdp.wait %[[R1]]
// FSDP2: %[[R0:.*]] = fsdp.reduce_scatter_start {{.*}}unit = "blocks.0"
// FSDP2: fsdp.wait %[[R0]]
// FSDP2: fsdp.update @sgd.0 @blocks.0.w
// FSDP2: fsdp.update @sgd.0 @blocks.1.w

// Compute is short here, so gathers start as early as they can. Reductions
// start at once; the update of the first runs beside the second.
// OVERLAP-LABEL: func.func @step
// OVERLAP-SAME: fsdp.schedule = "overlap"
// OVERLAP: %[[G0:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.0"
// OVERLAP: fsdp.wait %[[G0]]
// OVERLAP: %[[G1:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.1"
// OVERLAP: all_gather_start {{.*}}region = #fsdp<region forward>, unit = ""
// OVERLAP: all_gather_start {{.*}}region = #fsdp<region backward>, unit = ""
// OVERLAP: all_gather_start {{.*}}region = #fsdp<region backward>, unit = "blocks.1"
// OVERLAP: "mm"
// OVERLAP: fsdp.wait %[[G1]]
// OVERLAP: %[[R1:.*]] = fsdp.reduce_scatter_start {{.*}}unit = "blocks.1"
// OVERLAP: %[[R0:.*]] = fsdp.reduce_scatter_start {{.*}}unit = "blocks.0"
// OVERLAP: fsdp.wait %[[R1]]
// OVERLAP: fsdp.update @sgd.0 @blocks.1.w
// OVERLAP: fsdp.wait %[[R0]]
// OVERLAP: fsdp.update @sgd.0 @blocks.0.w

// DEPTH-LABEL: func.func @step
// DEPTH: %[[G0:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.0"
// DEPTH: "mm"
// DEPTH: %[[G1:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.1"
// DEPTH-NEXT: fsdp.wait %[[G1]]
// DEPTH: %[[G2:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region backward>, unit = "blocks.1"
// DEPTH-NEXT: fsdp.wait %[[G2]]

// BUDGET-LABEL: func.func @step
// BUDGET: %[[G0:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region forward>, unit = "blocks.0"
// BUDGET: "mm"
// BUDGET: all_gather_start {{.*}}region = #fsdp<region backward>, unit = "blocks.1"

// REMARK: gather {{.*}}ahead_ops=0, ahead_us=0.0, region=forward, unit=blocks.0, us=3.0
// REMARK: gather {{.*}}ahead_ops=9, ahead_us=5.0, region=backward, unit=, us=3.0
// REMARK: reduce {{.*}}reduce-scatter is waited for behind its start", behind_ops=9, behind_us=5.0, unit=blocks.1, us=3.0
// REMARK: schedule {{.*}}schedule=overlap, communication_us=21.1, exposed_us=3.0, naive_exposed_us=21.1, naive_peak_bytes=896, naive_step_us=49.3, peak_bytes=1408, step_us=31.3
