// Tests that every op that becomes a command gets the one stream, and loads and step scalars none.
// RUN: fsdp-opt %s --fsdp-assign-streams | FileCheck %s

fsdp.state @w parameter : tensor<4xf32> {trainable, group = 0 : i64}
fsdp.state @n buffer : tensor<4xf32>

// CHECK-LABEL: func.func private @rule
// CHECK-NOT: fsdp.stream
// CHECK-LABEL: func.func @step
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  %s = aten.call "add.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %s : tensor<*xf32>
}

func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
  // CHECK-NOT: fsdp.load{{.*}}fsdp.stream
  %w = fsdp.load @w : tensor<4xf32>
  // CHECK: fsdp.learning_rate 0
  // CHECK-NOT: fsdp.stream
  %lr = fsdp.learning_rate 0
  // CHECK: aten.call "mul.Tensor"{{.*}}fsdp.stream = 0 : i64
  %y = aten.call "mul.Tensor"(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: aten.call "sum"{{.*}}fsdp.stream = 0 : i64
  %l = aten.call "sum"(%y) : (tensor<4xf32>) -> tensor<f32>
  // CHECK: fsdp.store {{.*}}fsdp.stream = 0 : i64
  fsdp.store %y, @n : tensor<4xf32>
  // CHECK: fsdp.update {{.*}}fsdp.stream = 0 : i64
  fsdp.update @rule @w, %y [] : tensor<4xf32>
  return %l : tensor<f32>
}
