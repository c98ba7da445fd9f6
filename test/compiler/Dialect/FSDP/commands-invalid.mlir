// Tests that malformed commands are refused. What a plan can hold, its checker
// refuses (test/compiler/Transforms/verify-commands-invalid.mlir).
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

func.func @step() {
  // expected-error @below {{names the state @w, which the module does not have}}
  %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 8>} : tensor<2xf32>
  return
}

// -----

func.func @step() {
  // expected-error @below {{must be tensor of a static shape}}
  %w = fsdp.cmd.value {place = #fsdp.place<0, 0, 8>} : tensor<?xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32> {trainable}
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{names the rule @rule, which is not a function marked `fsdp.rule`}}
  fsdp.cmd.update @rule @w, %g [] : tensor<2xf32>
  return
}

// -----

func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{names the state @w, which the module does not have}}
  fsdp.cmd.update @rule @w, %g [] : tensor<2xf32>
  return
}

// -----

func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
fsdp.state @w parameter : tensor<2xf32> {trainable}
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{names the state @m, which the module does not have}}
  fsdp.cmd.update @rule @w, %g [@m] : tensor<2xf32>
  return
}

// -----

func.func @step(%a: tensor<?xf32>) {
  // expected-error @below {{must be tensor of a static shape}}
  fsdp.cmd.collective all_gather %a : tensor<?xf32> to %a : tensor<?xf32> {dtype = f32, count = 9 : i64}
  return
}

// -----

func.func @step(%a: tensor<?xf32>) {
  // expected-error @below {{must be variadic of tensor of a static shape}}
  fsdp.cmd.copy to %a : tensor<?xf32> {pieces = [#fsdp.piece<source = -1, bytes = 8>]}
  return
}
