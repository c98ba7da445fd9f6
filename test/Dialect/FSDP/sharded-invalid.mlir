// Tests that malformed ops of the sharded phase are refused.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

func.func @step(%w: tensor<2xf32>) {
  // expected-error @below {{has the region "sideways"; it is "forward" or "backward"}}
  %u = fsdp.unshard %w {unit = "", region = "sideways"} : tensor<2xf32>
  return
}

// -----

// expected-error @below {{belongs to a unit, which only a parameter can}}
fsdp.state @b buffer : tensor<2xf32> {unit = ""}
