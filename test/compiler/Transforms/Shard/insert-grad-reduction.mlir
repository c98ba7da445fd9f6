// Tests that the gradient of each sharded parameter is averaged right where it
// is produced, and cloned first where it is not row-major.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-grad-reduction | FileCheck %s
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=1" --fsdp-insert-grad-reduction | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-grad-reduction -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func @step
// CHECK: %[[G1:.*]] = aten.call "mm"{{.*}} -> tensor<4x5xf32>
// CHECK-NEXT: %[[R1:.*]] = fsdp.reduce_grad %[[G1]] {unit = "blocks.1"} : tensor<4x5xf32>
// CHECK: %[[G0:.*]] = aten.call "t"{{.*}} -> tensor<5x3xf32, #aten.strides<[1, 5]>>
// CHECK-NEXT: %[[C0:.*]] = aten.call "clone"(%[[G0]]) backward {memory_format = 0 : i64}
// CHECK-NEXT: %[[R0:.*]] = fsdp.reduce_grad %[[C0]] {unit = "blocks.0"} : tensor<5x3xf32>
// CHECK: fsdp.update @sgd.0 @blocks.0.w, %[[R0]]
// CHECK: fsdp.update @sgd.0 @blocks.1.w, %[[R1]]

// ONE-NOT: fsdp.reduce_grad
// ONE-NOT: clone

// REMARK: remark: [Missed] copy {{.*}}"a copy row by row, as the ranks exchange a gradient", bytes=60, {{.*}}of=t
// REMARK: remark: {{.*}}averaged over the ranks", dtype=f32, state=blocks.0.w
