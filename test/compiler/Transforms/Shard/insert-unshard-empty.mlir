// Tests that a parameter without elements is not gathered once more in backward,
// where its unit may gather nothing else.
// RUN: fsdp-opt %s --fsdp-shard-state="mesh=2" --fsdp-insert-unshard="reshard-after-forward=true" | FileCheck %s

fsdp.unit "" root
fsdp.unit "layer"
fsdp.state @layer.weight parameter : tensor<0x2xf32> {trainable, unit = "layer"}
fsdp.state @layer.bias parameter : tensor<2xf32> {trainable, unit = "layer"}

// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<0x2xf32>) -> (tensor<0x2xf32>, tensor<2xf32>) {
  %w = fsdp.load @layer.weight : tensor<0x2xf32>
  %b = fsdp.load @layer.bias : tensor<2xf32>
  // CHECK-COUNT-2: fsdp.unshard {{.*}}#fsdp<region forward>, unit = "layer"
  %0 = aten.call "mul.Tensor"(%x, %w) : (tensor<0x2xf32>, tensor<0x2xf32>) -> tensor<0x2xf32>
  %1 = aten.call "mul.Tensor"(%0, %b) : (tensor<0x2xf32>, tensor<2xf32>) -> tensor<0x2xf32>
  // CHECK: fsdp.unshard {{.*}} {region = #fsdp<region forward>, unit = "layer"} : tensor<0x2xf32>
  // CHECK: fsdp.unshard {{.*}} {region = #fsdp<region backward>, unit = "layer"} : tensor<2xf32>
  %2 = aten.call "mul.Tensor"(%1, %w) backward : (tensor<0x2xf32>, tensor<0x2xf32>) -> tensor<0x2xf32>
  %3 = aten.call "mul.Tensor"(%b, %b) backward : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<0x2xf32>, tensor<2xf32>
}
