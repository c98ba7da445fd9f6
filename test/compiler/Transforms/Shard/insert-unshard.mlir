// Tests that each reader of a sharded parameter has a gather of its own, and
// that backward repeats forward's views where the unit reshards.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard="reshard-after-forward=true" | FileCheck %s --check-prefixes=CHECK,TRUE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard="reshard-after-forward=false" | FileCheck %s --check-prefixes=CHECK,FALSE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=1" --fsdp-insert-unshard | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --mlir-print-debuginfo=false | sed -e 's/fsdp.unit "" root/fsdp.unit "" root {reshard = true}/' -e 's/fsdp.unit "blocks.1"/fsdp.unit "blocks.1" {reshard = false}/' > %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-insert-unshard="reshard-after-forward=true" | FileCheck %s --check-prefix=OWN
// RUN: fsdp-opt %t.mlir --fsdp-insert-unshard="reshard-after-forward=false" | FileCheck %s --check-prefix=OWN
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=4" --fsdp-insert-unshard="reshard-after-forward=2" | FileCheck %s --check-prefixes=CHECK,TRUE,RANKS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=4" --fsdp-insert-unshard="reshard-after-forward=4" | FileCheck %s --check-prefixes=CHECK,TRUE,ALL
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=4" --fsdp-insert-unshard="reshard-after-forward=1" | FileCheck %s --check-prefixes=CHECK,FALSE

// A number of ranks reshards; that of all is true, and 1 is false.
// RANKS: fsdp.unit "blocks.0" {reshard = true, reshard_ranks = 2 : i64}
// ALL: fsdp.unit "blocks.0" {reshard = true}
// CHECK-LABEL: func.func @step
// CHECK: %[[W1:.*]] = fsdp.load @blocks.1.w
// CHECK: %[[WH:.*]] = fsdp.load @head.w
// CHECK: %[[U1:.*]] = fsdp.unshard %[[W1]] {region = #fsdp<region forward>, unit = "blocks.1"} : tensor<4x5xf32>
// CHECK-NEXT: %[[T1:.*]] = aten.call "t"(%[[U1]])
// CHECK: %[[UH:.*]] = fsdp.unshard %[[WH]] {region = #fsdp<region forward>, unit = ""}
// CHECK-NEXT: aten.call "mul.Tensor"(%{{.*}}, %[[UH]])
// AUTO: fsdp.unshard %[[WH]] {region = #fsdp<region forward>, unit = ""}
// TRUE: fsdp.unshard %[[WH]] {region = #fsdp<region backward>, unit = ""}
// FALSE: fsdp.unshard %[[WH]] {region = #fsdp<region forward>, unit = ""}
// AUTO: %[[B1:.*]] = fsdp.unshard %[[W1]] {region = #fsdp<region backward>, unit = "blocks.1"}
// AUTO-NEXT: %[[V1:.*]] = aten.call "t"(%[[B1]]) backward
// AUTO-NEXT: aten.call "t"(%[[V1]]) backward
// FALSE: aten.call "t"(%[[T1]]) backward
// CHECK-LABEL: func.func @eval
// CHECK: fsdp.unshard %{{.*}} {region = #fsdp<region forward>, unit = "blocks.0"}

// ONE-NOT: fsdp.unshard

// What a unit says itself wins over either option: here the root reshards and
// blocks.1 does not.
// OWN-LABEL: func.func @step
// OWN: fsdp.unshard %[[WH:.*]] {region = #fsdp<region backward>, unit = ""}
// OWN-NOT: region = #fsdp<region backward>, unit = "blocks.1"

// REMARK: remark: {{.*}}each reader has a gather", readers=2, region=forward, unit=
// REMARK: remark: {{.*}}each reader has a gather", readers=1, region=backward, unit=blocks.1
