// Tests that kernels are not chosen without a measurement, or by one of another
// machine, and that a table which cannot be read says why.
// RUN: not fsdp-opt %s --fsdp-choose-kernels=kernels=fast 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-choose-kernels="kernel-table=a.toml" 2>&1 | FileCheck %s --check-prefix=EXACT
// RUN: not fsdp-opt %s --fsdp-choose-kernels="kernels=fast kernel-table=%S/../Inputs/kernels.toml" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not fsdp-opt %s --fsdp-choose-kernels="kernels=fast kernel-table=%t.gone" 2>&1 | FileCheck %s --check-prefix=GONE
// RUN: not fsdp-opt %s --fsdp-choose-kernels="kernels=fast kernel-table=%s" 2>&1 | FileCheck %s --check-prefix=TOML
// RUN: not fsdp-opt %s --fsdp-select-kernels=device=cuda --fsdp-choose-kernels="kernels=fast kernel-table=%S/../Inputs/kernels.toml" 2>&1 | FileCheck %s --check-prefix=CUDA
// RUN: not fsdp-opt %s --fsdp-choose-kernels=kernels=faster 2>&1 | FileCheck %s --check-prefix=VALUE

// NONE: error: kernels=fast chooses by measurement; give kernel-table=FILE, which `fsdp-run PLAN --tune FILE` writes for a plan with kernels=exact
// EXACT: error: kernel-table is read with kernels=fast; say so, or drop it
// OTHER: error: kernel table "{{.*}}kernels.toml" was measured on Abacus 3000, and this is {{.*}}; measure this one with fsdp-run --tune, into another file
// GONE: error: {{.*}}.gone
// TOML: error: kernel table "{{.*}}": line 1 is no TOML
// CUDA: error: kernels=fast is for device=cpu; kernels of GPUs are not measured yet
// VALUE: error: kernels=faster does not exist; there are exact and fast

func.func @step() {
  return
}
