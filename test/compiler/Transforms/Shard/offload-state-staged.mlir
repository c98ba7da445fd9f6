// Tests that a parameter and its optimizer state may be in different memories: the update runs where the state is, on a
// copy of the parameter that is stored back.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear offload=params" --mlir-print-debuginfo=false | FileCheck %s --check-prefix=PARAMS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:Linear offload=optimizer" --mlir-print-debuginfo=false | FileCheck %s --check-prefix=OPTIMIZER
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 units=class:Linear offload=params" --mlir-print-debuginfo=false | FileCheck %s --check-prefix=COMMANDS

// Parameters are on the host, frozen ones too; what the optimizer keeps is not.
// PARAMS-DAG: fsdp.state @blocks.0.w parameter {{.*}}on_host
// PARAMS-DAG: fsdp.state @head.w parameter {{.*}}on_host
// PARAMS-DAG: fsdp.state @"blocks.0.w/momentum_buffer" optimizer : tensor<3x3xf32> {global = tensor<5x3xf32>, parameter = @blocks.0.w, sharding
// PARAMS-LABEL: func.func @step
// PARAMS: %[[F:.*]] = fsdp.fetch %{{.*}} {region = #fsdp<region forward>, unit = "blocks.0"}
// PARAMS-NEXT: shard.all_gather %[[F]]
// PARAMS: %[[MEAN:.*]] = aten.call "div.Scalar"
// PARAMS-NOT: fsdp.offload
// PARAMS: %[[W:.*]] = fsdp.load @blocks.0.w
// PARAMS-NEXT: %[[STAGED:.*]] = fsdp.fetch %[[W]] {region = #fsdp<region update>, unit = "blocks.0"} : tensor<3x3xf32>
// PARAMS-NEXT: %[[NEW:.*]] = fsdp.update @sgd.0 @blocks.0.w, %{{.*}} [@"blocks.0.w/momentum_buffer"] staged %[[STAGED]] : tensor<3x3xf32> : tensor<3x3xf32> -> tensor<3x3xf32>
// PARAMS-NEXT: fsdp.store %[[NEW]], @blocks.0.w

// Forward and backward read the device's parameters, as without offload.
// OPTIMIZER-NOT: parameter {{.*}}on_host
// OPTIMIZER: fsdp.state @"blocks.0.w/momentum_buffer" optimizer {{.*}}on_host
// OPTIMIZER-LABEL: func.func @step
// OPTIMIZER-NOT: fsdp.fetch
// OPTIMIZER: %[[MEAN:.*]] = aten.call "div.Scalar"
// OPTIMIZER-NEXT: %[[G:.*]] = fsdp.offload %[[MEAN]]
// OPTIMIZER: %[[W:.*]] = fsdp.load @blocks.1.w
// OPTIMIZER-NEXT: %[[STAGED:.*]] = fsdp.offload %[[W]] {unit = "blocks.1"} : tensor<2x5xf32>
// OPTIMIZER-NEXT: %[[NEW:.*]] = fsdp.update @sgd.0 @blocks.1.w, %[[G]] [@"blocks.1.w/momentum_buffer"] staged %[[STAGED]]
// OPTIMIZER-NEXT: fsdp.store %[[NEW]], @blocks.1.w

// In commands the update writes the copy, and the copy goes into the state.
// COMMANDS: fsdp.cmd.copy from %{{[0-9]+}} : tensor<2x5xf32> to %[[COPY:[0-9]+]] : tensor<2x5xf32> {{.*}}stream = 4 : i64
// COMMANDS: fsdp.cmd.update @sgd.0 @blocks.1.w, %{{[0-9]+}} [@"blocks.1.w/momentum_buffer"] staged %[[COPY]] : tensor<2x5xf32> : tensor<2x5xf32>
// COMMANDS: %[[STATE:[0-9]+]] = fsdp.cmd.value state @blocks.1.w
// COMMANDS: fsdp.cmd.copy from %[[COPY]] : tensor<2x5xf32> to %[[STATE]] : tensor<2x5xf32> {{.*}}stream = 5 : i64
