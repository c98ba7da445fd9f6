// Tests that a unit's parameters become one range, trainable and frozen ones
// apart, with their optimizer state; that reads become views of it, and that
// its gradient is packed as its members lie.
// DEFINE: %{to} = --fsdp-assign-units=units=class:MLP --fsdp-shard-state=mesh=2 --fsdp-insert-unshard --fsdp-insert-grad-reduction
// RUN: fsdp-opt %S/../Inputs/mlp.mlir %{to} --fsdp-flatten-state | FileCheck %s
// RUN: fsdp-opt %S/../Inputs/mlp.mlir %{to} --fsdp-flatten-state=gather=map | FileCheck %s --check-prefix=MAP
// RUN: fsdp-opt %S/../Inputs/mlp.mlir %{to} --fsdp-flatten-state -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state=mesh=1 --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-flatten-state --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=ONE

// RUN: fsdp-opt %S/../Inputs/two_shapes.mlir --fsdp-assign-units --fsdp-shard-state=mesh=2 --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-flatten-state | FileCheck %s --check-prefix=SHAPES

// Members keep their names and types, begin at multiples of 64 bytes and have
// no memory of their own. 36 elements fill two pieces of 32.
// CHECK: fsdp.state @"/flat.0" parameter : tensor<64xf32> {is_flat, sharding = #fsdp.sharding<@mesh, {{\[\[}}0]]>, trainable, unit = ""}
// CHECK: fsdp.state @blocks.0.w parameter : tensor<5x3xf32> {flat = @"/flat.0", flat_offset = 0 : i64, group = 0 : i64, trainable, unit = ""}
// CHECK: fsdp.state @"/flat.0/momentum_buffer" optimizer : tensor<64xf32> {is_flat, parameter = @"/flat.0", sharding = #fsdp.sharding<@mesh, {{\[\[}}0]]>}
// CHECK: fsdp.state @"blocks.0.w/momentum_buffer" optimizer : tensor<5x3xf32> {flat = @"/flat.0/momentum_buffer", flat_offset = 0 : i64, parameter = @blocks.0.w}
// CHECK: fsdp.state @blocks.1.w parameter : tensor<4x5xf32> {flat = @"/flat.0", flat_offset = 16 : i64
// CHECK: fsdp.state @"/flat.1" parameter : tensor<32xf32> {is_flat, sharding = #fsdp.sharding<@mesh, {{\[\[}}0]]>, unit = ""}
// CHECK: fsdp.state @head.w parameter : tensor<2x4xf32> {flat = @"/flat.1", flat_offset = 0 : i64, unit = ""}
// CHECK: fsdp.state @calls buffer : tensor<2x4xf32> {persistent}

// CHECK-LABEL: func.func @step
// CHECK: %[[FLAT:.*]] = fsdp.load @"/flat.0" : tensor<64xf32>
// CHECK: %[[U0:.*]] = fsdp.unshard %[[FLAT]] {region = #fsdp<region forward>, unit = ""} : tensor<64xf32>
// CHECK-NEXT: aten.call "as_strided"(%[[U0]]) {size = array<i64: 5, 3>, storage_offset = 0 : i64, stride = array<i64: 3, 1>} : (tensor<64xf32>) -> tensor<5x3xf32>
// CHECK: %[[U1:.*]] = fsdp.unshard %[[FLAT]]
// CHECK-NEXT: aten.call "as_strided"(%[[U1]]) {size = array<i64: 4, 5>, storage_offset = 16 : i64, stride = array<i64: 5, 1>} : (tensor<64xf32>) -> tensor<4x5xf32>
// CHECK: %[[PACK:.*]] = fsdp.pack %{{.*}}, %{{.*}} {members = [#fsdp.member<offset = 0, bytes = 60, blocks = 1>, #fsdp.member<offset = 64, bytes = 80, blocks = 1>]} : (tensor<5x3xf32>, tensor<4x5xf32>) -> tensor<64xf32>
// CHECK-NEXT: %[[GRAD:.*]] = fsdp.reduce_grad %[[PACK]] {unit = ""} : tensor<64xf32>
// CHECK: fsdp.update @sgd.0 @"/flat.0", %[[GRAD]] [@"/flat.0/momentum_buffer"] : tensor<64xf32>

// A piece that other ranks read in place is whole pages.
// MAP: fsdp.state @"/flat.0" parameter : tensor<2048xf32> {is_flat, mapped,
// MAP: fsdp.state @"/flat.1" parameter : tensor<2048xf32> {is_flat, mapped,

// REMARK: remark: {{.*}}parameters in one", elements=64, elements_per_rank=32, optimizer_states=1, padding=29, parameters=2, state=/flat.0

// ONE: remark: {{.*}}nothing is sharded, so nothing is flat
// ONE-NOT: is_flat

// Programs for batches of other shapes gather and update the same range.
// SHAPES: func.func @step(
// SHAPES: fsdp.pack
// SHAPES: fsdp.update @sgd.0 @"/flat.0", %{{.*}} [] : tensor<32xf32>
// SHAPES-NOT: fsdp.update
// SHAPES: func.func @step_2(%{{.*}}) -> {{.*}} attributes {fsdp.variant_of = @step}
// SHAPES: fsdp.load @"/flat.0" : tensor<32xf32>
// SHAPES: fsdp.pack
// SHAPES: fsdp.update @sgd.0 @"/flat.0", %{{.*}} [] : tensor<32xf32>
// SHAPES-NOT: fsdp.update
