// Tests that backward computes again, where it first needs it, what forward
// does not keep of a unit: `full` keeps what enters and leaves it, `selective`
// results of matrix products too, `none` everything. A random op keeps its
// site, a store is not repeated, and --cse does not merge the two.
// RUN: fsdp-opt %S/../Inputs/block.mlir --fsdp-remat-activations="remat=full" --cse --canonicalize | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: fsdp-opt %S/../Inputs/block.mlir --fsdp-remat-activations="remat=selective" --cse --canonicalize | FileCheck %s --check-prefixes=CHECK,SELECTIVE
// RUN: fsdp-opt %S/../Inputs/block.mlir --fsdp-remat-activations="remat=none" | FileCheck %s --check-prefix=NONE
// RUN: fsdp-opt %S/../Inputs/block.mlir --fsdp-remat-activations="remat=full" --fsdp-shard-state="mesh=2" --fsdp-insert-unshard | FileCheck %s --check-prefix=GATHER
// RUN: fsdp-opt %S/../Inputs/block.mlir --fsdp-remat-activations="remat=full" -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: sed '/fsdp.unit "block"/d' %S/../Inputs/block.mlir | fsdp-opt --fsdp-remat-activations="remat=full" | FileCheck %s --check-prefix=NONE

// Units have the ops of all their modules.
// RUN: sed -e 's/fsdp.unit "block"/fsdp.unit "first" {modules = ["first", "block"]}/' %S/../Inputs/block.mlir | fsdp-opt --fsdp-remat-activations="remat=full" | FileCheck %s --check-prefix=LIST

// A checkpoint of the model's own is recomputed by any option; what its policy
// keeps is not.
// RUN: sed -e 's/"bernoulli.p"(%a)/"bernoulli.p"(%a) checkpoint(0)/' -e 's/"mm"(%x, %wt)/"mm"(%x, %wt) checkpoint(0)/' -e 's/"tanh"(%h)/"tanh"(%h) checkpoint(0)/' -e 's/"mul.Tensor"(%a, %mask)/"mul.Tensor"(%a, %mask) checkpoint(0)/' %S/../Inputs/block.mlir > %t.checkpoint.mlir
// RUN: fsdp-opt %t.checkpoint.mlir --fsdp-remat-activations | FileCheck %s --check-prefix=CHECKPOINT
// RUN: sed -e 's/"mm"(%x, %wt) checkpoint(0)/"mm"(%x, %wt) checkpoint(0) must_save/' %t.checkpoint.mlir | fsdp-opt --fsdp-remat-activations | FileCheck %s --check-prefix=KEEP

// What was measured of a call is true of its copy.
// RUN: sed -e 's/"mm"(%x, %wt)/"mm"(%x, %wt) measured(1.0e-3)/' %S/../Inputs/block.mlir | fsdp-opt --fsdp-remat-activations="remat=full" | FileCheck %s --check-prefix=MEASURED

// MEASURED: aten.call "mm"({{.*}}) measured(1.000000e-03)
// MEASURED: aten.call "mm"({{.*}}) backward recompute("block") measured(1.000000e-03)

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X:.*]]: tensor<4x4xf32>
// CHECK: %[[W:.*]] = fsdp.load @block.w
// CHECK: %[[H:.*]] = aten.call "mm"
// CHECK: aten.call "tanh"
// CHECK: aten.call "bernoulli.p"
// CHECK: aten.call "sum"
// CHECK: %[[DY:.*]] = aten.call "full"
// FULL-NEXT: %[[T:.*]] = aten.call "t"(%[[W]]) backward recompute("block")
// FULL-NEXT: %[[RH:.*]] = aten.call "mm"(%[[X]], %[[T]]) backward recompute("block")
// FULL-NEXT: %[[A:.*]] = aten.call "tanh"(%[[RH]])
// SELECTIVE-NEXT: %[[A:.*]] = aten.call "tanh"(%[[H]]) backward recompute("block")
// CHECK-NEXT: %[[MASK:.*]] = aten.call "bernoulli.p"(%[[A]]) backward recompute("block") {generator = #aten.generator<7>
// CHECK-NEXT: %[[DA:.*]] = aten.call "mul.Tensor"(%[[DY]], %[[MASK]])
// CHECK-NEXT: aten.call "tanh_backward"(%[[DA]], %[[A]])
// CHECK-NOT: recompute(
// CHECK-COUNT-1: fsdp.store

// NONE-NOT: recompute(
// LIST: recompute("first")

// Backward gathers what it recomputes from.
// GATHER: %[[U:.*]] = fsdp.unshard {{.*}}region = #fsdp<region backward>, unit = "block"
// GATHER-NEXT: aten.call "t"(%[[U]]) backward recompute("block")

// REMARK: remark: {{.*}}backward repeats ops of the region", ops=7, recomputed=block, repeated=4

// CHECKPOINT-NOT: checkpoint(
// CHECKPOINT-COUNT-3: recompute("checkpoint 0")
// CHECKPOINT-NOT: recompute(

// KEEP-NOT: must_save
// KEEP-COUNT-2: recompute("checkpoint 0")
// KEEP-NOT: recompute(
