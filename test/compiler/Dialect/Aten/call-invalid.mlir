// Tests that a call which its schema does not allow is refused with the reason.
// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

func.func @unknown(%x: tensor<4xf32>) {
  // expected-error @below {{PyTorch has no operator "reluu"; did you mean "relu"}}
  %0 = aten.call "reluu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @overload(%x: tensor<4xf32>) {
  // expected-error @below {{PyTorch has no operator "add.Tensors"; its overloads are "add.Scalar",}}
  %0 = aten.call "add.Tensors"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @lacking_operand(%x: tensor<4x4xf32>) {
  // expected-error @below {{"mm" lacks an operand for 'mat2' of type Tensor [FSDP-E0401]}}
  %0 = aten.call "mm"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @left_over(%x: tensor<4x4xf32>) {
  // expected-error @below {{"t" takes fewer operands: operand 1 has no argument}}
  %0 = aten.call "t"(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @not_a_list(%x: tensor<4x4xf32>) {
  // expected-error @below {{"cat" takes a list for 'tensors': put its operands in brackets}}
  %0 = aten.call "cat"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @none(%x: tensor<4x4xf32>) {
  // expected-error @below {{"mm" needs a tensor for 'self', not 'none'}}
  %0 = aten.call "mm"(none, %x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @operand_type(%x: tensor<4xindex>) {
  // expected-error @below {{"relu" takes Tensor for 'self', not 'tensor<4xindex>'}}
  %0 = aten.call "relu"(%x) : (tensor<4xindex>) -> tensor<4xf32>
  return
}

// -----

func.func @lacking_attribute(%x: tensor<4xf32>) {
  // expected-error @below {{"view" lacks attribute 'size' of type int[]: write array<i64: ...>}}
  %0 = aten.call "view"(%x) : (tensor<4xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @attribute_type(%x: tensor<4xf32>) {
  // expected-error @below {{"unsqueeze" takes int for 'dim': write an i64 instead of 1.000000e+00 : f64}}
  %0 = aten.call "unsqueeze"(%x) {dim = 1.0} : (tensor<4xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @attribute_name(%x: tensor<4xf32>) {
  // expected-error @below {{"unsqueeze" has no argument 'axis'; its arguments are 'self', 'dim'}}
  %0 = aten.call "unsqueeze"(%x) {dim = 1, axis = 1} : (tensor<4xf32>) -> tensor<4x1xf32>
  return
}

// -----

func.func @device(%x: tensor<4xf32>) {
  // expected-error @below {{"_to_copy" has no attribute for 'device' of type Device?: remove it}}
  %0 = aten.call "_to_copy"(%x) {device = "cpu"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @result_count(%x: tensor<4xf32>) {
  // expected-error @below {{"relu" returns 1 tensor, here are 2}}
  %0:2 = aten.call "relu"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @result_type(%x: tensor<4xf32>) {
  // expected-error @below {{result 0 has type 'f32'; results are tensors of PyTorch's dtypes, or 'none'}}
  %0 = aten.call "relu"(%x) : (tensor<4xf32>) -> f32
  return
}

// -----

func.func @no_tensor(%x: tensor<f32>) {
  // expected-error @below {{"_local_scalar_dense" returns no tensor}}
  aten.call "_local_scalar_dense"(%x) : (tensor<f32>) -> ()
  return
}

// -----

fsdp.state @w parameter : tensor<4xf32>
func.func @write_state() {
  // expected-note @below {{it is given here}}
  %w = fsdp.load @w : tensor<4xf32>
  // expected-error @below {{"zero_" writes in place what 'fsdp.load' gives; write a copy of it}}
  %0 = aten.call "zero_"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{#aten.strides has 1 strides, the tensor has rank 2}}
func.func private @rank(tensor<2x2xf32, #aten.strides<[1]>>)

// -----

func.func @step(%a: tensor<?xf32>) {
  // expected-error @below {{takes or gives 'tensor<?xf32>', of a dynamic shape; shapes are static in a plan}}
  %0 = aten.call "relu"(%a) : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @item(%x: tensor<4xf32>, %n: tensor<f32>) {
  // expected-error @below {{"add.Tensor" takes the item of a tensor<f64> for 'alpha', not 'tensor<f32>'}}
  %0 = aten.call "add.Tensor"(%x, %x, item %n) : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @product(%x: tensor<4xf32>) {
  // expected-error @below {{accumulates, which an "add.Tensor" of the earlier sum and of this micro-batch's part alone does, in the sum's type}}
  %0 = aten.call "mul.Tensor"(%x, %x) accumulates : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @no_time(%x: tensor<4xf32>) {
  // expected-error @below {{attribute 'measured' failed to satisfy constraint: seconds, finite and above 0}}
  %0 = aten.call "relu"(%x) measured(0.0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @negative_time(%x: tensor<4xf32>) {
  // expected-error @below {{attribute 'measured' failed to satisfy constraint: seconds, finite and above 0}}
  %0 = aten.call "relu"(%x) measured(-1.0e-3) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @endless(%x: tensor<4xf32>) {
  // expected-error @below {{attribute 'measured' failed to satisfy constraint: seconds, finite and above 0}}
  %0 = aten.call "relu"(%x) measured(0x7FF0000000000000) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
