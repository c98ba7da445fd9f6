// Tests that --cse and --canonicalize after every pass change no count and no
// byte of communication: forward's and backward's gathers stay apart.
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-shard="mesh=3" --fsdp-overlap --fsdp-report="format=csv output=%t.plain" -o /dev/null
// RUN: fsdp-opt %S/Inputs/mlp.mlir --pass-pipeline="builtin.module(cse,canonicalize,fsdp-assign-units,cse,canonicalize,fsdp-shard-state{mesh=3},cse,canonicalize,fsdp-insert-unshard,cse,canonicalize,fsdp-insert-grad-reduction,cse,canonicalize,fsdp-localize,cse,canonicalize,fsdp-verify-sharded,fsdp-dedup-unshard,cse,canonicalize,fsdp-bucket-collectives,cse,canonicalize,fsdp-convert-to-async,cse,canonicalize,fsdp-verify-async,fsdp-report{format=csv output=%t.between})" -o /dev/null
// RUN: diff %t.plain %t.between
// RUN: FileCheck %s --input-file=%t.between
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-shard="mesh=3" --fsdp-overlap --cse --canonicalize --fsdp-assign-streams --cse --canonicalize --fsdp-plan-memory --cse --canonicalize --fsdp-lower-to-commands --cse --canonicalize --fsdp-verify-commands --fsdp-report="format=csv output=%t.commands" -o /dev/null
// RUN: diff %t.plain %t.commands

// CHECK: step,blocks.0,1,0
// CHECK: step,blocks.1,1,1
// CHECK: step,,1,0
