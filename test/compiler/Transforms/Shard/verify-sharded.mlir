// Tests that the sharded phase passes its own verifier, on any number of ranks.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=1" --fsdp-verify-sharded -o /dev/null
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=3" --cse --canonicalize --fsdp-verify-sharded -o /dev/null
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=8 reshard-after-forward=true" --fsdp-verify-sharded -o /dev/null
