// Tests that with a number of ranks forward leaves a part of each bucket behind,
// and backward gathers these parts among as many neighbours, in either layout.
// What is mapped is there all the time, and is not kept.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=4 reshard-after-forward=2" --fsdp-dedup-unshard --fsdp-bucket-collectives --fsdp-keep-pieces | FileCheck %s
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=4 reshard-after-forward=2" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2x4 reshard-after-forward=2 shard-layout=flat gather=copy" | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=4 reshard-after-forward=2 shard-layout=flat gather=map" | FileCheck %s --check-prefix=MAPPED
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=4 reshard-after-forward=2 offload=all" --fsdp-dedup-unshard --fsdp-bucket-collectives --fsdp-keep-pieces | FileCheck %s --check-prefix=OFFLOAD
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=4 reshard-after-forward=2" -o /dev/null --remarks-filter=fsdp-keep-pieces --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: fsdp.unit "blocks.1" {reshard = true, reshard_ranks = 2 : i64}
// CHECK-LABEL: func.func @step
// CHECK: %[[WHOLE:.*]] = fsdp.all_gather %{{.*}} {region = #fsdp<region forward>, unit = "blocks.1"} : tensor<64xui8> -> tensor<256xui8>
// CHECK-NEXT: %[[KEPT:.*]] = fsdp.keep %[[WHOLE]] {ranks = 2 : i64} : tensor<256xui8> -> tensor<128xui8>
// CHECK: %[[AGAIN:.*]] = fsdp.all_gather %[[KEPT]] {ranks = 2 : i64, region = #fsdp<region backward>, unit = "blocks.1"} : tensor<128xui8> -> tensor<256xui8>
// CHECK-NEXT: fsdp.unpack %[[AGAIN]]
// Forward alone keeps nothing.
// CHECK-LABEL: func.func @eval
// CHECK-NOT: fsdp.keep

// COMMANDS: fsdp.cmd.copy from %{{.*}} : tensor<256xui8> to %{{.*}} : tensor<128xui8> {pieces = [#fsdp.piece<bytes = 128, owners = 2>]}
// COMMANDS: fsdp.cmd.collective all_gather {{.*}}ranks = 2 : i64, region = #fsdp<region backward>

// FLAT: #fsdp.piece<bytes = {{[0-9]+}}, owners = 2>
// FLAT: fsdp.cmd.collective all_gather {{.*}}axes = array<i64: 1>{{.*}}ranks = 2 : i64, region = #fsdp<region backward>

// MAPPED-NOT: owners = 2
// MAPPED-NOT: ranks = 2 : i64, region

// Backward fetches nothing.
// OFFLOAD: fsdp.fetch %{{.*}} {region = #fsdp<region forward>, unit = "blocks.1"}
// OFFLOAD-NOT: fsdp.fetch %{{.*}} {region = #fsdp<region backward>

// REMARK: backward gathers what neighbours keep", bytes_per_rank=128, neighbours=2, unit=blocks.1
