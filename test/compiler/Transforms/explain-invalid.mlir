// Tests that a unit or a cluster that does not exist, an earlier phase, and a file that cannot be written are errors.
// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-explain=blocks.7 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-explain="peak cluster=moon output=%t" 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-explain=peak 2>&1 | FileCheck %s --check-prefix=PHASE
// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-explain="peak output=%t.missing/text" 2>&1 | FileCheck %s --check-prefix=FILE

// UNIT: error: there is no unit 'blocks.7' to explain; the nearest is blocks.{{[01]}}; give peak, exposed, or one of {{.*}}blocks.1{{.*}}[FSDP-E0408]
// KEY: error: {{.*}}moon
// PHASE: error: the module is not lowered to commands; run fsdp-opt --fsdp-pipeline
// FILE: error: what is explained cannot be written
