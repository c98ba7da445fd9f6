// Tests that a unit's own divisor takes the place of the number of ranks, for
// that unit alone: in the sharded phase, in the buckets' collectives, over
// replicas, in half precision, and on one rank, which has nothing to add up.
// RUN: sed -e '/state @"blocks.0.w" /s/{/{unit = "blocks.0", /' -e '/state @"blocks.1.w" /s/{/{unit = "blocks.1", /' -e '/state @"head.w" /s/$/ {unit = ""}/' -e 's/fsdp.module "head" .*/&\n  fsdp.unit "blocks.0" {gradient_divisor = 3.0 : f64}\n  fsdp.unit "blocks.1"\n  fsdp.unit "" root/' %S/../Inputs/mlp.mlir > %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2" | FileCheck %s
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2 schedule=naive" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2 schedule=naive shard-layout=flat" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2x2 schedule=naive" | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2 reduce-dtype=float16" | FileCheck %s --check-prefix=HALF
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=1" | FileCheck %s --check-prefix=ONE
// RUN: sed "/func.func @eval/,/^  }/d" %t.mlir | fsdp-opt --fsdp-pipeline="mesh=2" | fsdp-translate --fsdp-to-plan | fsdp-translate --plan-to-text | FileCheck %s --check-prefix=TEXT

// CHECK: fsdp.unit "blocks.0" {gradient_divisor = 3.000000e+00 : f64}
// CHECK-LABEL: func.func @step
// CHECK: %[[S:.*]] = shard.reduce_scatter {{.*}}fsdp.unit = "blocks.1"
// CHECK-NEXT: aten.call "div.Scalar"(%[[S]]) {{.*}}other = 2.000000e+00
// CHECK: %[[S:.*]] = shard.reduce_scatter {{.*}}fsdp.unit = "blocks.0"
// CHECK-NEXT: aten.call "div.Scalar"(%[[S]]) {{.*}}other = 3.000000e+00

// COMMANDS: fsdp.cmd.collective reduce_scatter {{.*}}divisor = 2.000000e+00 : f64{{.*}}unit = "blocks.1"
// COMMANDS: fsdp.cmd.collective reduce_scatter {{.*}}divisor = 3.000000e+00 : f64{{.*}}unit = "blocks.0"

// REPLICAS: fsdp.cmd.collective all_reduce {{.*}}divisor = 4.000000e+00 : f64{{.*}}unit = "blocks.1"
// REPLICAS: fsdp.cmd.collective all_reduce {{.*}}divisor = 3.000000e+00 : f64{{.*}}unit = "blocks.0"

// A sum in half precision is divided by 2 before it, and by what is left after.
// HALF: %[[G:.*]] = aten.call "div.Scalar"(%{{.*}}) {{.*}}other = 2.000000e+00{{.*}}f16
// HALF: %[[S:.*]] = shard.reduce_scatter {{.*}}fsdp.unit = "blocks.0"
// HALF-NEXT: aten.call "div.Scalar"(%[[S]]) {{.*}}other = 1.500000e+00

// ONE-NOT: fsdp.cmd.collective
// ONE: fsdp.cmd.aten "div.Scalar"(%[[G:.*]]) to(%[[D:.*]]) {args = {other = 3.000000e+00 : f64}
// ONE-NOT: "div.Scalar"

// TEXT: reduce_scatter {{.*}}unit 'blocks.1', divided by 2
// TEXT: reduce_scatter {{.*}}unit 'blocks.0', divided by 3
