// Tests that what the step itself adds up over ranks is added up over shards and then over replicas,
// also on a rank that is alone; and that a plan's sums are the sequential step's.
// RUN: fsdp-opt %s --fsdp-shard="mesh=2" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-shard="mesh=3x2" | FileCheck %s --check-prefix=REPLICAS
// RUN: fsdp-opt %s --fsdp-shard="mesh=4x1" | FileCheck %s --check-prefix=DDP
// RUN: fsdp-opt %s --fsdp-shard="mesh=1" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=2" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=3x2" -o /dev/null --remarks-filter=fsdp-verify-commands --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=MEANING
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=1" -o /dev/null --remarks-filter=fsdp-verify-commands --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=MEANING

// A view is sent from memory of its own.
// CHECK-LABEL: func.func @step
// CHECK: %[[RANK:.*]] = fsdp.rank
// CHECK: aten.call "scalar_tensor"(%[[RANK]])
// CHECK: %[[VIEW:.*]] = aten.call "view"
// CHECK: %[[OWN:.*]] = aten.call "clone"(%[[VIEW]])
// CHECK-NEXT: %[[ALL:.*]] = fsdp.all_reduce sum step %[[OWN]] : tensor<8xf32>
// CHECK: %[[MEAN:.*]] = aten.call "mean"(%[[ALL]])
// CHECK: %[[SCALED:.*]] = aten.call "mul.Tensor"(%[[MEAN]]
// CHECK-NEXT: %[[TWICE:.*]] = fsdp.all_reduce sum step %[[SCALED]] : tensor<f32>
// CHECK: return %[[TWICE]]

// REPLICAS: %[[S:.*]] = fsdp.all_reduce sum step %{{.*}} {axes = array<i64: 1>} : tensor<8xf32>
// REPLICAS-NEXT: fsdp.all_reduce sum step %[[S]] : tensor<8xf32>
// DDP: fsdp.all_reduce sum step %{{.*}} : tensor<8xf32>
// DDP-NOT: fsdp.all_reduce sum step %{{.*}} : tensor<8xf32>
// ONE: fsdp.all_reduce sum step %{{.*}} : tensor<8xf32>

// COMMANDS: fsdp.cmd.collective all_reduce {{.*}}count = 8 : i64, {{.*}}reduced = #fsdp<collective_role step>
// MEANING: [Passed] meaning {{.*}} Remark="computed as by the sequential step", covered=1

func.func @step(%x: tensor<2x4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
  %number = fsdp.rank
  %rank = aten.call "scalar_tensor"(%number) {dtype = f32} : (f64) -> tensor<f32>
  %flat = aten.call "view"(%x) {size = array<i64: 8>} : (tensor<2x4xf32>) -> tensor<8xf32>
  %all = fsdp.sum_over_ranks %flat : tensor<8xf32>
  %mean = aten.call "mean"(%all) : (tensor<8xf32>) -> tensor<f32>
  %scaled = aten.call "mul.Tensor"(%mean, %rank) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %twice = fsdp.sum_over_ranks %scaled : tensor<f32>
  return %twice : tensor<f32>
}
