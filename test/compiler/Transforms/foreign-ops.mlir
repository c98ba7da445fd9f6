// Tests that what no phase knows is an error before it becomes memory.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics -allow-unregistered-dialect --fsdp-lower

func.func @step(%a: tensor<2xf32>) {
  // expected-error @below {{is not a scheduled op; run --fsdp-overlap first}}
  "foreign.op"() ({
    %0 = aten.call "relu"(%a) : (tensor<2xf32>) -> tensor<2xf32>
    "foreign.end"() : () -> ()
  }) : () -> ()
  return
}

// -----

// expected-error @below {{program 'step' is not one block of ops; control flow cannot be planned}}
func.func @step(%a: tensor<2xf32>) {
  "foreign.branch"()[^bb1] : () -> ()
^bb1:
  return
}

// -----

// expected-error @below {{program 'step' takes 'tensor<?xf32>', whose bytes cannot be counted; shapes are static in a plan}}
func.func @step(%a: tensor<?xf32>) {
  return
}
