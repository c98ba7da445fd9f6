// Tests that a mesh of several dimensions has replicas: states are split over
// its last axis alone, gradients are summed over the shards and then over the
// replicas, on a stream of its own, and divided once by the number of all ranks.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=3x2" | FileCheck %s
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=3x2 mesh-dims=dp,fsdp" | FileCheck %s --check-prefix=NAMES
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=4x1" | FileCheck %s --check-prefix=DDP
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=1x2" | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=3x2" --fsdp-dedup-unshard --fsdp-bucket-collectives | FileCheck %s --check-prefix=BUCKET
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=4x1" --fsdp-dedup-unshard --fsdp-bucket-collectives | FileCheck %s --check-prefix=DDPBUCKET
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=3x2" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=3x2 shard-layout=flat" | FileCheck %s --check-prefix=MAPPED

// Several axes of replicas are one sum: but for the axes it is the program of
// their product.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2x2x2" | FileCheck %s --check-prefix=CUBE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2x2x2 mesh-dims=pods,hosts,cards" | FileCheck %s --check-prefix=CUBENAMES
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2x2x2" --fsdp-dedup-unshard --fsdp-bucket-collectives | FileCheck %s --check-prefix=CUBEBUCKET
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2x2x2" | FileCheck %s --check-prefix=CUBECOMMANDS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2x2x2 shard-layout=flat" | grep fsdp.cmd | sed 's/axes = array<i64: 0, 1>, //; s/array<i64: 2>/array<i64: 1>/' > %t.cube
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=4x2 shard-layout=flat" | grep fsdp.cmd > %t.product
// RUN: diff %t.cube %t.product

// CHECK: shard.grid @mesh(shape = 3x2) {fsdp.axes = [#fsdp.axis<"replicate", replicate>, #fsdp.axis<"shard", shard>]}
// CHECK: fsdp.state @blocks.0.w parameter : tensor<3x3xf32> {global = tensor<5x3xf32>, {{.*}}sharding = #fsdp.sharding<@mesh, {{\[\[}}1]]>
// CHECK-LABEL: func.func @step
// CHECK: shard.all_gather {{.*}} on @mesh grid_axes = [1] gather_axis = 0 {{.*}} : tensor<3x3xf32> -> tensor<6x3xf32>
// CHECK: %[[S:.*]] = shard.reduce_scatter {{.*}} on @mesh grid_axes = [1] scatter_axis = 0 {{.*}} : tensor<6x3xf32> -> tensor<3x3xf32>
// CHECK-NEXT: %[[R:.*]] = shard.all_reduce %[[S]] on @mesh grid_axes = [0] {fsdp.unit = "blocks.0"} : tensor<3x3xf32> -> tensor<3x3xf32>
// CHECK-NEXT: aten.call "div.Scalar"(%[[R]]) backward {other = 6.000000e+00 : f64}
// NAMES: shard.grid @mesh(shape = 3x2) {fsdp.axes = [#fsdp.axis<"dp", replicate>, #fsdp.axis<"fsdp", shard>]}

// With shards of one rank nothing is gathered, and each rank has the whole.
// DDP: fsdp.state @blocks.0.w parameter : tensor<5x3xf32> {global = tensor<5x3xf32>
// DDP-NOT: {{all_gather|reduce_scatter|slice|constant_pad_nd}}
// DDP: %[[R:.*]] = shard.all_reduce %{{.*}} on @mesh grid_axes = [0] {fsdp.unit = "blocks.1"} : tensor<4x5xf32> -> tensor<4x5xf32>
// DDP-NEXT: aten.call "div.Scalar"(%[[R]]) backward {other = 4.000000e+00 : f64}
// DDP-NOT: {{all_gather|reduce_scatter|slice|constant_pad_nd}}

// And with one replica nothing is summed over replicas.
// FLAT: shard.reduce_scatter
// FLAT-NOT: shard.all_reduce

// BUCKET: %[[S:.*]] = fsdp.reduce_scatter %{{.*}} {axes = array<i64: 1>, unit = "blocks.1"} : tensor<2x16xf32> -> tensor<16xf32>
// BUCKET-NEXT: %[[R:.*]] = fsdp.all_reduce sum gradient %[[S]] {divisor = 6.000000e+00 : f64, unit = "blocks.1"} : tensor<16xf32>
// BUCKET-NEXT: fsdp.unpack %[[R]]
// DDPBUCKET: %[[P:.*]] = fsdp.pack {{.*}} -> tensor<32xf32>
// DDPBUCKET-NEXT: %[[R:.*]] = fsdp.all_reduce sum gradient %[[P]] {divisor = 4.000000e+00 : f64, unit = "blocks.1"} : tensor<32xf32>

// COMMANDS: fsdp.cmd.collective all_gather {{.*}}axes = array<i64: 1>{{.*}}stream = 1 : i64
// COMMANDS: fsdp.cmd.collective reduce_scatter {{.*}}axes = array<i64: 1>{{.*}}channel = 1 : i64{{.*}}stream = 2 : i64
// COMMANDS: fsdp.cmd.collective all_reduce {{.*}}channel = 2 : i64{{.*}}divisor = 6.000000e+00 : f64{{.*}}stream = 3 : i64

// A window shows the ranks of one shard group.
// MAPPED: fsdp.state @"blocks.0/flat.0" parameter : tensor<1024xf32> {{.*}}global = tensor<2048xf32>
// MAPPED: fsdp.cmd.collective all_gather {{.*}}axes = array<i64: 1>{{.*}}mapped

// CUBE: shard.grid @mesh(shape = 2x2x2) {fsdp.axes = [#fsdp.axis<"replicate0", replicate>, #fsdp.axis<"replicate1", replicate>, #fsdp.axis<"shard", shard>]}
// CUBE: fsdp.state @blocks.0.w parameter : tensor<3x3xf32> {{.*}}sharding = #fsdp.sharding<@mesh, {{\[\[}}2]]>
// CUBE: shard.all_gather {{.*}} on @mesh grid_axes = [2]
// CUBE: %[[S:.*]] = shard.reduce_scatter {{.*}} on @mesh grid_axes = [2] scatter_axis = 0 {{.*}} : tensor<6x3xf32> -> tensor<3x3xf32>
// CUBE-NEXT: %[[R:.*]] = shard.all_reduce %[[S]] on @mesh grid_axes = [0, 1] {fsdp.unit = "blocks.0"}
// CUBE-NEXT: aten.call "div.Scalar"(%[[R]]) backward {other = 8.000000e+00 : f64}
// CUBENAMES: [#fsdp.axis<"pods", replicate>, #fsdp.axis<"hosts", replicate>, #fsdp.axis<"cards", shard>]
// CUBEBUCKET: %[[S:.*]] = fsdp.reduce_scatter %{{.*}} {axes = array<i64: 2>, unit = "blocks.1"}
// CUBEBUCKET-NEXT: %[[R:.*]] = fsdp.all_reduce sum gradient %[[S]] {axes = array<i64: 0, 1>, divisor = 8.000000e+00 : f64, unit = "blocks.1"}
// CUBEBUCKET-NEXT: fsdp.unpack %[[R]]
// CUBECOMMANDS: fsdp.cmd.collective all_reduce {{.*}}axes = array<i64: 0, 1>, channel = 2 : i64{{.*}}stream = 3 : i64
