// Tests that the scheduled phase passes its own verifier, on any number of
// ranks.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=1" --fsdp-overlap --fsdp-verify-async -o /dev/null
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=3" --fsdp-overlap --cse --canonicalize --fsdp-verify-async -o /dev/null
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=8 reshard-after-forward=true" --fsdp-overlap --fsdp-verify-async -o /dev/null
