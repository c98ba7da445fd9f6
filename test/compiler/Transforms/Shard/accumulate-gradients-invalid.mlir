// Tests that a step that cannot be split into micro-batches is refused.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-accumulate-gradients

// expected-error @below {{takes 2 micro-batches, but there is no program @step}}
fsdp.training {accumulate = 2 : i64}

// -----

fsdp.training {accumulate = 2 : i64}
// expected-error @below {{has no op marked fsdp.cotangent, the gradient that backward starts with}}
func.func @step() {
  return
}
