// Tests that a step that cannot be split into micro-batches is refused.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-accumulate-gradients

// expected-error @below {{fsdp.accumulate is 0; a step has at least one micro-batch}}
module attributes {fsdp.accumulate = 0 : i64} {
  func.func @step() {
    return
  }
}

// -----

// expected-error @below {{fsdp.accumulate is 2, but there is no program @step}}
module attributes {fsdp.accumulate = 2 : i64} {
}

// -----

module attributes {fsdp.accumulate = 2 : i64} {
  // expected-error @below {{has no op marked fsdp.cotangent, the gradient that backward starts with}}
  func.func @step() {
    return
  }
}
