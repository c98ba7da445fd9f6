// Tests that remat=auto recomputes no more than a budget needs, says why, and
// names the smallest budget where none holds; and that its pipeline parses back.
// RUN: fsdp-opt %S/../Inputs/block.mlir --fsdp-pipeline="mesh=2 remat=auto memory-budget-mib=1" -o /dev/null --remarks-filter='fsdp-remat.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: not fsdp-opt %S/../Inputs/block.mlir --fsdp-pipeline="mesh=2 remat=auto memory-budget-mib=0.0001" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %S/../Inputs/block.mlir --fsdp-pipeline="mesh=2 remat=auto" 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not fsdp-opt %S/../Inputs/block.mlir --fsdp-pipeline="remat=auto memory-budget-mib=1" 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: fsdp-opt %S/../Inputs/block.mlir --mlir-print-debuginfo=false --fsdp-pipeline="mesh=2 remat=auto memory-budget-mib=1" --dump-pass-pipeline -o %t.a.mlir 2>%t.dump
// RUN: %python -c "t = open('%t.dump').read(); print(' '.join(t[t.index('builtin.module'):].split()))" > %t.text
// RUN: %python -c "import subprocess, sys; sys.exit(subprocess.run(['fsdp-opt', '%S/../Inputs/block.mlir', '--mlir-print-debuginfo=false', '--pass-pipeline=' + open('%t.text').read(), '--dump-pass-pipeline', '-o', '%t.b.mlir'], executable=sys.argv[1], stderr=open('%t.dump2', 'w')).returncode)" fsdp-opt
// RUN: diff %t.a.mlir %t.b.mlir
// RUN: diff %t.dump %t.dump2

// ENOUGH: remark: {{.*}}nothing is recomputed; all of it would", freed_bytes={{[0-9]+}}, recomputed=block, us={{[0-9.]+}}
// ENOUGH: remark: {{.*}}memory-budget-mib=1, kept_peak_bytes={{[0-9]+}}, kept_step_us={{[0-9.]+}}, measured=1, peak_bytes={{[0-9]+}}, step_us={{[0-9.]+}}

// NONE: error: program "step" does not fit a memory budget of 104 bytes whatever is recomputed; the smallest that it fits is {{[0-9.]+}} MiB ({{[0-9]+}} bytes)

// BUDGET: error: remat=auto needs memory-budget-mib

// What the passes that follow refuse is their error.
// MESH: error: the mesh is not given
