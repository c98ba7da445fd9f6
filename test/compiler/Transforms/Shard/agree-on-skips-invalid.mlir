// Tests that rules count the steps that leave their parameters alone, each by one
// condition.
// RUN: sed 's/, fsdp.missed = @fsdp.missed.0//' %S/agree-on-skips.mlir | not fsdp-opt --fsdp-agree-on-skips 2>&1 | FileCheck %s --check-prefix=UNCOUNTED
// RUN: sed 's/@fsdp.missed.0 buffer : tensor<f64>/@fsdp.missed.0 buffer : tensor<f32>/' %S/agree-on-skips.mlir | not fsdp-opt --fsdp-agree-on-skips 2>&1 | FileCheck %s --check-prefix=UNCOUNTED
// RUN: sed 's/fsdp.missed = @fsdp.missed.1/fsdp.missed = @fsdp.missed.0/' %S/agree-on-skips.mlir | not fsdp-opt --fsdp-agree-on-skips 2>&1 | FileCheck %s --check-prefix=SHARED

// UNCOUNTED: error: 'fsdp.update' op may be skipped, and its rule has no buffer, a tensor<f64>, that counts such steps
// SHARED: error: 'fsdp.update' op is skipped on another condition than those before it that @fsdp.missed.0 counts
