// Tests that the report counts collectives and bytes alike in every phase that
// has buckets, in each of its formats.
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-report -o /dev/null | FileCheck %s
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-report="format=csv" -o /dev/null | FileCheck %s --check-prefix=CSV
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-shard="mesh=2" --fsdp-overlap --fsdp-report="format=csv output=%t.csv" -o /dev/null
// RUN: FileCheck %s --check-prefix=CSV --input-file=%t.csv
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" --fsdp-report="format=json output=%t.json" -o /dev/null
// RUN: %python -c "import json; r = json.load(open('%t.json')); s = r['programs']['step']; print(r['ranks'], s['gathers_forward'], s['gathers_backward'], s['reduce_scatters'], [a['name'] for a in r['arenas']])" | FileCheck %s --check-prefix=JSON
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-report -o /dev/null | FileCheck %s --check-prefix=CAPTURED
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 schedule=naive" --fsdp-report="cluster=h100x8" -o /dev/null | FileCheck %s --check-prefix=FAST
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 offload=all" --fsdp-report -o /dev/null | FileCheck %s --check-prefix=HOST

// CHECK: ranks 2, parameters 3, parameter bytes 172, state bytes per rank 200
// CHECK-NEXT: program @step
// CHECK-NEXT: unit forward backward gather bytes reduce reduce bytes
// CHECK-NEXT: blocks.0 1 0 128 1 128
// CHECK-NEXT: blocks.1 1 1 256 1 128
// CHECK-NEXT: (root) 1 0 128 0 0
// CHECK-NEXT: total 3 1 512 2 256
// CHECK-NEXT: predicted on local: {{[0-9.]+}} us, communication {{[0-9.]+}} us, of it exposed {{[0-9.]+}} us
// CHECK-NEXT: most bytes in use: {{[0-9]+}}
// CHECK-NEXT: program @eval
// CHECK: total 1 0 128 0 0
// CHECK: arena 0 (device): {{[0-9]+}} bytes
// CHECK: arena 1 (window): 0 bytes
// CHECK: arena 2 (host): 0 bytes

// CSV: program,unit,gathers_forward,gathers_backward,gather_bytes,reduce_scatters,reduce_scatter_bytes
// CSV-NEXT: step,blocks.0,1,0,128,1,128
// CSV-NEXT: step,blocks.1,1,1,256,1,128
// CSV-NEXT: step,,1,0,128,0,0

// JSON: 2 3 1 2 ['device', 'window', 'host']

// CAPTURED: ranks 1, parameters 3, parameter bytes 172

// HOST: most bytes in use: {{[0-9]+}}
// HOST-NEXT: most bytes in use on the host: {{[1-9][0-9]*}}
// HOST: arena 2 (host): {{[1-9][0-9]*}} bytes

// What nothing hides is exposed: the naive order waits for every collective.
// FAST: predicted on h100x8: {{[0-9.]+}} us, communication [[TIME:[0-9.]+]] us, of it exposed [[TIME]] us
