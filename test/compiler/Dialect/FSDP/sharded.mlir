// Tests that the ops of the sharded phase print as they are read.
// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s

shard.grid @mesh(shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
// CHECK: fsdp.unit "" root
fsdp.unit "" root
// CHECK: fsdp.unit "blocks.0" {gradient_divisor = 3.000000e+00 : f64, prefetch_backward = [""]}
fsdp.unit "blocks.0" {gradient_divisor = 3.0 : f64, prefetch_backward = [""]}
// CHECK: fsdp.state @w parameter : tensor<3x128xf32> {global = tensor<10x128xf32>, sharding = #fsdp.sharding<@mesh, {{\[\[}}0]]>, unit = "blocks.0"}
fsdp.state @w parameter : tensor<3x128xf32> {global = tensor<10x128xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = "blocks.0"}

// CHECK: fsdp.state @"w/grad" gradient : tensor<10x128xf32> {parameter = @w}
fsdp.state @"w/grad" gradient : tensor<10x128xf32> {parameter = @w}

// CHECK-LABEL: func.func @step
func.func @step(%w: tensor<10x128xf32>) {
  // CHECK: fsdp.unshard %{{.*}} {region = #fsdp<region forward>, unit = "blocks.0"} : tensor<10x128xf32>
  %u = fsdp.unshard %w {unit = "blocks.0", region = #fsdp<region forward>} : tensor<10x128xf32>
  // CHECK: fsdp.reduce_grad %{{.*}} {unit = ""} : tensor<10x128xf32>
  %r = fsdp.reduce_grad %w {unit = ""} : tensor<10x128xf32>
  // CHECK: fsdp.accumulate %{{.*}}, @"w/grad" : tensor<10x128xf32>
  fsdp.accumulate %w, @"w/grad" : tensor<10x128xf32>
  return
}
