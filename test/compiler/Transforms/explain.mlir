// Tests that a lowered module says what it holds at its peak, what is exposed and why, and what a unit does.
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 cluster=h100x8" --fsdp-explain=peak -o /dev/null | FileCheck %s --check-prefix=PEAK
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 cluster=h100x8" --fsdp-explain="exposed output=%t.txt" -o /dev/null
// RUN: FileCheck %s --check-prefix=EXPOSED --input-file=%t.txt
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 cluster=h100x8 streams=1 schedule=naive" --fsdp-explain -o /dev/null | FileCheck %s --check-prefix=NAIVE
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-explain="what=blocks.1 cluster=a100x8" -o /dev/null | FileCheck %s --check-prefix=UNIT
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 offload=all" --fsdp-explain=peak -o /dev/null | FileCheck %s --check-prefix=HOST

// PEAK: program step
// PEAK-NEXT: most bytes in use of the device arena: {{[0-9,]+}}, at command {{[0-9]+}}, {{.+}}
// PEAK-NEXT: {{[0-9,]+}} parameters
// PEAK: the largest tensors
// PEAK: program eval

// EXPOSED: program step
// EXPOSED-NEXT: predicted on h100x8: {{[0-9.]+}} us, communication {{[0-9.]+}} us, of it exposed {{[0-9.]+}} us
// EXPOSED-NEXT: {{[0-9.]+}} us {{all-gather|reduce-scatter}} of {{.+}}: {{.+}}
// EXPOSED: with no communication at all: {{[0-9.]+}} us less

// NAIVE: on the compute stream
// NAIVE-NEXT: in which the compute stream does nothing else
// NAIVE: run it beside compute (schedule=overlap streams=3); at most: {{[0-9.]+}} us less

// UNIT: unit blocks.1: 1 parameters, 80 bytes, 40 on a rank; with the optimizer's state 80
// UNIT-NEXT: blocks.1.w: float32 [4, 5], a rank has [2, 5]
// UNIT-NEXT: program step
// UNIT-NEXT: all-gather of blocks.1 (forward): 128 bytes, from {{[0-9.]+}} us to {{[0-9.]+}} us

// HOST: most bytes in use of the host arena
