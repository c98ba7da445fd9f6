// Tests where bucket-cap-mib cuts a unit into buckets of whole tensors, in either
// layout: what fits a number of MiB, in order of first use or of gradients;
// what a cost model finds worth it; or nowhere. Each decision is a remark.

// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:MLP" --fsdp-dedup-unshard --fsdp-bucket-collectives="bucket-cap-mib=0.00012" --remarks-filter=fsdp-bucket-collectives --remark-format=emitRemark -o %t.rows 2>%t.rows.log
// RUN: FileCheck %s --check-prefix=ROWS --input-file=%t.rows
// RUN: FileCheck %s --check-prefix=ROWSLOG --input-file=%t.rows.log
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:MLP shard-layout=flat gather=copy bucket-cap-mib=0.00007" --remarks-filter=fsdp-flatten-state --remark-format=emitRemark -o %t.flat 2>%t.flat.log
// RUN: FileCheck %s --check-prefix=FLAT --input-file=%t.flat
// RUN: FileCheck %s --check-prefix=FLATLOG --input-file=%t.flat.log
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 units=class:MLP bucket-cap-mib=none" | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 units=class:MLP shard-layout=flat gather=map bucket-cap-mib=0.00007" | FileCheck %s --check-prefix=MAPPED
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:MLP" --fsdp-dedup-unshard --fsdp-bucket-collectives="bucket-cap-mib=auto cluster=%S/../Inputs/wire.toml" --remarks-filter=fsdp-bucket-collectives --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=WIRE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 units=class:MLP" --fsdp-dedup-unshard --fsdp-bucket-collectives="bucket-cap-mib=auto cluster=h100x8" --remarks-filter=fsdp-bucket-collectives --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=FAST
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 bucket-cap-mib=lots" -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOTS
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 shard-layout=flat bucket-cap-mib=-1" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// 72 bytes are gathered, then 80 and 32 together; gradients come in the order
// of backward.
// ROWS-LABEL: func.func @step
// ROWS: fsdp.all_gather
// ROWS-NEXT: fsdp.unpack {{.*}} -> tensor<6x3xf32>
// ROWS: fsdp.all_gather
// ROWS-NEXT: fsdp.unpack {{.*}} -> (tensor<4x5xf32>, tensor<2x4xf32>)
// ROWS-NOT: fsdp.all_gather
// ROWS: %[[G1:.*]] = fsdp.reduce_scatter
// ROWS-NEXT: %[[W1:.*]] = fsdp.unpack %[[G1]] {{.*}} -> tensor<2x5xf32>
// ROWS: %[[G0:.*]] = fsdp.reduce_scatter
// ROWS-NEXT: %[[W0:.*]] = fsdp.unpack %[[G0]] {{.*}} -> tensor<3x3xf32>
// ROWS: fsdp.update @sgd.0 @blocks.0.w, %[[W0]]
// ROWS: fsdp.update @sgd.0 @blocks.1.w, %[[W1]]
// ROWSLOG: Remark=forward, buckets=2, bytes=184, most_bytes=125, unit=
// ROWSLOG: Remark=gradients, buckets=2, bytes=152, most_bytes=125, unit=

// A flat parameter is a bucket. A tensor of more than the cap has its own.
// FLAT: fsdp.state @"/flat.0" parameter : tensor<16xf32>
// FLAT: fsdp.state @blocks.0.w {{.*}}flat = @"/flat.0", flat_offset = 0
// FLAT: fsdp.state @"/flat.1" parameter
// FLAT: fsdp.state @blocks.1.w {{.*}}flat = @"/flat.1", flat_offset = 0
// FLAT-LABEL: func.func @step
// FLAT-COUNT-2: shard.reduce_scatter
// FLAT: fsdp.update @sgd.0 @"/flat.0", {{.*}} [@"/flat.0/momentum_buffer"]
// FLAT: fsdp.update @sgd.0 @"/flat.1", {{.*}} [@"/flat.1/momentum_buffer"]
// FLATLOG: Remark=flat, buckets=3, bytes=172, most_bytes=73, unit=

// WHOLE-LABEL: func.func @step
// WHOLE-COUNT-1: collective all_gather
// WHOLE-NOT: collective all_gather
// WHOLE-COUNT-1: collective reduce_scatter
// WHOLE-NOT: collective reduce_scatter
// WHOLE: return

// MAPPED-LABEL: func.func @step
// MAPPED-COUNT-3: collective all_gather {{.*}}mapped
// MAPPED-COUNT-2: collective reduce_scatter
// MAPPED: return

// WIRE: Remark=forward, buckets=3, bytes=184, efficient_bytes=19, hidden_us=0.0, unit=, us=93.1
// WIRE: Remark=gradients, buckets=2, bytes=152, efficient_bytes=19, hidden_us=0.0, unit=, us=77.1
// FAST: [Missed] {{.*}}Remark=forward, buckets=1, bytes=184, efficient_bytes=103318200, hidden_us=0.0, unit=, us=15.9

// LOTS: error: bucket-cap-mib=lots is no number of MiB, as in 25 or 0.5
// NEGATIVE: error: bucket-cap-mib=-1 is no number of MiB, as in 25 or 0.5
