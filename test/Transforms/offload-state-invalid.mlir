// Tests that offload takes known values.
// RUN: fsdp-opt %s --fsdp-offload-state="offload=some" -verify-diagnostics

// expected-error @below {{offload=some does not exist; there are none, params, optimizer and all}}
module {}
