// Tests that a step of three micro-batches becomes two programs: one that adds
// its gradients to states, and one, the last, that reduces the sums.
// RUN: sed 's/seed = 0/accumulate = 3 : i64, seed = 0/' %S/../Inputs/mlp.mlir > %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-accumulate-gradients | FileCheck %s
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2 shard-layout=flat" | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2 shard-layout=flat units=blocks reduce-dtype=float16" | FileCheck %s --check-prefix=HALF
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2 accumulate-reduce=each" | FileCheck %s --check-prefix=EACH
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2x2 accumulate-reduce=each" | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2x2 accumulate-reduce=each" --fsdp-dedup-unshard --fsdp-bucket-collectives | FileCheck %s --check-prefix=BUCKETS
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-accumulate-gradients | FileCheck %s --check-prefix=OFF
// RUN: fsdp-opt %t.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-accumulate-gradients -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Members of one flat state, whose gradients are reduced in another dtype.
// HALF: fsdp.state @"blocks.0.w/grad" gradient : tensor<5x3xf16> {parameter = @blocks.0.w}
// HALF: fsdp.state @"blocks.1.w/grad" gradient : tensor<4x5xf16> {parameter = @blocks.1.w}

// Whole gradients: each rank's own.
// CHECK: fsdp.state @"blocks.0.w/grad" gradient : tensor<5x3xf32> {parameter = @blocks.0.w}
// CHECK: fsdp.state @"blocks.1.w/grad" gradient : tensor<4x5xf32> {parameter = @blocks.1.w}

// The last micro-batch. Its loss counts a third, like each.
// CHECK-LABEL: func.func @step
// CHECK: aten.call "full"() backward {dtype = f32, fill_value = 0.33333333333333331 : f64, fsdp.cotangent
// CHECK: %[[G1:.*]] = aten.call "mm"{{.*}} -> tensor<4x5xf32>
// CHECK-NEXT: %[[A1:.*]] = fsdp.load @"blocks.1.w/grad" : tensor<4x5xf32>
// CHECK-NEXT: %[[S1:.*]] = aten.call "add.Tensor"(%[[A1]], %[[G1]])
// CHECK-NEXT: %[[Z1:.*]] = aten.call "full_like"(%[[S1]]) backward {fill_value = -0.000000e+00 : f64
// CHECK-NEXT: fsdp.store %[[Z1]], @"blocks.1.w/grad"
// CHECK-NEXT: fsdp.reduce_grad %[[S1]] {unit = "blocks.1"}

// All others communicate no gradient and update nothing; buffers they do.
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: tensor<2x3xf32> {fsdp.input = "x"} {{.*}}-> (tensor<f32> {fsdp.output = "loss"})
// CHECK-NOT: fsdp.reduce_grad
// CHECK-NOT: fsdp.update
// CHECK: fill_value = 0.33333333333333331 : f64, fsdp.cotangent
// CHECK: %[[G1:.*]] = aten.call "mm"{{.*}} -> tensor<4x5xf32>
// CHECK-NEXT: fsdp.accumulate %[[G1]], @"blocks.1.w/grad" : tensor<4x5xf32>
// CHECK: fsdp.accumulate %{{.*}}, @"blocks.0.w/grad" : tensor<5x3xf32>
// CHECK: fsdp.store %{{.*}}, @calls
// CHECK-LABEL: func.func @eval

// A flat gradient is packed of sums, which are computed where they are sent from.
// FLAT-LABEL: func.func @step
// FLAT: %[[A:.*]] = fsdp.load @"blocks.1.w/grad" : tensor<4x5xf32>
// FLAT-NEXT: %[[S:.*]] = aten.call "add.Tensor"(%[[A]], %{{.*}})
// FLAT: fsdp.pack %[[S]]
// FLAT-LABEL: func.func @accumulate
// FLAT-NOT: fsdp.pack
// FLAT: fsdp.accumulate %{{.*}}, @"blocks.1.w/grad" : tensor<4x5xf32>

// To add in place is an update by a rule; to begin anew is a call that writes
// the state's own memory. Neither copies.
// COMMANDS: func.func private @fsdp.accumulate.f32
// COMMANDS-LABEL: func.func @step
// COMMANDS: %[[OLD:.*]] = fsdp.cmd.value state @"blocks.1.w/grad"
// COMMANDS: fsdp.cmd.aten "add.Tensor"(%[[OLD]], %{{.*}}) to(%[[SUM:.*]]) {
// COMMANDS: %[[NEW:.*]] = fsdp.cmd.value state @"blocks.1.w/grad"
// COMMANDS-NEXT: fsdp.cmd.aten "full_like"(%[[SUM]]) to(%[[NEW]])
// COMMANDS-LABEL: func.func @accumulate
// COMMANDS-NOT: reduce_scatter
// COMMANDS: fsdp.cmd.update @fsdp.accumulate.f32 @"blocks.1.w/grad", %{{.*}} []

// Reduced in each micro-batch, what is summed is a rank's part.
// EACH: fsdp.state @"blocks.1.w/grad" gradient : tensor<2x5xf32> {global = tensor<4x5xf32>, parameter = @blocks.1.w, sharding = #fsdp.sharding<@mesh, {{\[\[}}0]]>}
// EACH-LABEL: func.func @step
// EACH: %[[MEAN:.*]] = aten.call "div.Scalar"{{.*}} -> tensor<2x5xf32>
// EACH-NEXT: %[[A:.*]] = fsdp.load @"blocks.1.w/grad" : tensor<2x5xf32>
// EACH-NEXT: aten.call "add.Tensor"(%[[A]], %[[MEAN]])
// EACH-LABEL: func.func @accumulate
// EACH: %[[SUM:.*]] = shard.reduce_scatter
// EACH-NEXT: %[[MEAN:.*]] = aten.call "div.Scalar"(%[[SUM]])
// EACH-NEXT: fsdp.accumulate %[[MEAN]], @"blocks.1.w/grad" : tensor<2x5xf32>

// Over replicas the last one alone sums, and divides, once: what is summed
// before is a rank's part of a sum over shards.
// REPLICAS-LABEL: func.func @step
// REPLICAS: %[[SUM:.*]] = shard.reduce_scatter
// REPLICAS-NEXT: %[[A:.*]] = fsdp.load @"blocks.1.w/grad" : tensor<2x5xf32>
// REPLICAS-NEXT: %[[ALL:.*]] = aten.call "add.Tensor"(%[[A]], %[[SUM]])
// REPLICAS: fsdp.store %{{.*}}, @"blocks.1.w/grad"
// REPLICAS-NEXT: %[[R:.*]] = shard.all_reduce %[[ALL]]
// REPLICAS-NEXT: aten.call "div.Scalar"(%[[R]]) {{.*}}other = 4.000000e+00
// REPLICAS-LABEL: func.func @accumulate
// REPLICAS-NOT: shard.all_reduce
// REPLICAS: %[[SUM:.*]] = shard.reduce_scatter
// REPLICAS-NEXT: fsdp.accumulate %[[SUM]], @"blocks.1.w/grad" : tensor<2x5xf32>
// REPLICAS-NOT: shard.all_reduce

// The bucket that comes from the shards goes on to the replicas once its members
// are added to what there was.
// BUCKETS-LABEL: func.func @step
// BUCKETS: %[[S:.*]] = fsdp.reduce_scatter %{{.*}} {axes = array<i64: 1>, unit = "blocks.1"}
// BUCKETS-NEXT: %[[M:.*]] = fsdp.unpack %[[S]]
// BUCKETS-NEXT: %[[A:.*]] = fsdp.load @"blocks.1.w/grad"
// BUCKETS-NEXT: %[[ALL:.*]] = aten.call "add.Tensor"(%[[A]], %[[M]])
// BUCKETS-NEXT: %[[P:.*]] = fsdp.pack %[[ALL]]
// BUCKETS-NEXT: %[[R:.*]] = fsdp.all_reduce sum gradient %[[P]] {divisor = 4.000000e+00 : f64, unit = "blocks.1"}
// BUCKETS-NEXT: fsdp.unpack %[[R]]
// BUCKETS-LABEL: func.func @accumulate
// BUCKETS: fsdp.reduce_scatter %{{.*}} {axes = array<i64: 1>, unit = "blocks.1"}
// BUCKETS-NOT: fsdp.all_reduce

// OFF-NOT: gradient
// OFF-NOT: func.func @accumulate

// REMARK: remark: {{.*}}they are summed over micro-batches", bytes=140, gradients=2, micro_batches=3
