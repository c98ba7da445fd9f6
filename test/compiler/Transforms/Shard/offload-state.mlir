// Tests that parameters, gradients and optimizer state of units that are
// offloaded are on the host, with a copy in for each region and one out.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear offload=all" --mlir-print-debuginfo=false | FileCheck %s
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear offload=all pin-memory=false" | FileCheck %s --check-prefix=PAGEABLE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear" | FileCheck %s --check-prefix=NONE

// CHECK: fsdp.pin_memory
// PAGEABLE-NOT: fsdp.pin_memory
// NONE-NOT: {{fetch|fsdp.offload|on_host|pin_memory}}

// A buffer stays on the device.
// CHECK-DAG: fsdp.state @blocks.0.w parameter {{.*}}on_host
// CHECK-DAG: fsdp.state @"blocks.0.w/momentum_buffer" optimizer {{.*}}on_host
// CHECK-DAG: fsdp.state @head.w parameter {{.*}}on_host
// CHECK: fsdp.state @calls buffer : tensor<2x4xf32> {persistent}

// CHECK-LABEL: func.func @step
// CHECK: %[[W1:.*]] = fsdp.load @blocks.1.w
// CHECK: %[[F:.*]] = fsdp.fetch %[[W1]] {region = #fsdp<region forward>, unit = "blocks.1"} : tensor<2x5xf32>
// CHECK-NEXT: shard.all_gather %[[F]]{{.*}}fsdp.region = #fsdp<region forward>
// CHECK: %[[B:.*]] = fsdp.fetch %[[W1]] {region = #fsdp<region backward>, unit = "blocks.1"}
// CHECK-NEXT: shard.all_gather %[[B]]{{.*}}fsdp.region = #fsdp<region backward>
// CHECK: %[[MEAN:.*]] = aten.call "div.Scalar"
// CHECK-NEXT: %[[G:.*]] = fsdp.offload %[[MEAN]] {unit =
// CHECK: fsdp.update @sgd.0 @blocks.0.w, %{{.*}} [@"blocks.0.w/momentum_buffer"]
