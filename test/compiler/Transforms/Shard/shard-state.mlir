// Tests that parameters and their optimizer state are split, buffers are not,
// and that one rank shards nothing. The model's own mesh stands for the option.
// RUN: fsdp-opt %s --fsdp-shard-state="mesh=4" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-shard-state="mesh=1" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --fsdp-shard-state="mesh=4" -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: sed -e '1i fsdp.training {mesh = array<i64: 4>}' %s | fsdp-opt --fsdp-shard-state | FileCheck %s

// CHECK: shard.grid @[[MESH:mesh.*]](shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
// ONE: shard.grid @{{.*}}(shape = 1)
// ONE-NOT: sharding
fsdp.unit "" root
// A parameter may be called as the mesh is.
// CHECK: fsdp.state @mesh parameter : tensor<10x3xf32> {sharding = #fsdp.sharding<@[[MESH]], {{\[\[}}0]]>, unit = ""}
fsdp.state @mesh parameter : tensor<10x3xf32> {unit = ""}
// CHECK: fsdp.state @"mesh/m" optimizer : tensor<10x3xf32> {parameter = @mesh, sharding = #fsdp.sharding<@[[MESH]], {{\[\[}}0]]>}
fsdp.state @"mesh/m" optimizer : tensor<10x3xf32> {parameter = @mesh}
// CHECK: fsdp.state @b buffer : tensor<7xf32>
// CHECK-NOT: sharding
fsdp.state @b buffer : tensor<7xf32>

// A scalar has no rows: each rank has the whole.
// CHECK: fsdp.state @scale parameter : tensor<f32> {unit = ""}
fsdp.state @scale parameter : tensor<f32> {unit = ""}

// REMARK: remark: {{.*}}each rank has some rows of the dimension", dimension=0, padding=2, rows=10, rows_per_rank=3, state=mesh
// REMARK: remark: {{.*}}it has no rows to shard: each rank has the whole", state=scale
