// Tests that parameters without elements go to the root where they are all that
// a unit has, which would have nothing to gather, and stay in a unit of others.
// RUN: fsdp-opt %s --fsdp-assign-units | FileCheck %s

fsdp.module "" class "Net"
fsdp.module "layers" class "Sequential"
fsdp.module "layers.0" class "Linear"
fsdp.module "layers.1" class "Linear"

// CHECK: fsdp.unit "layers.0"
// CHECK-NEXT: fsdp.unit "" root
// CHECK-NOT: fsdp.unit

// CHECK: fsdp.state @layers.0.weight
// CHECK-SAME: unit = "layers.0"
fsdp.state @layers.0.weight parameter : tensor<2x4xf32> {trainable}
// CHECK: fsdp.state @layers.0.empty
// CHECK-SAME: unit = "layers.0"
fsdp.state @layers.0.empty parameter : tensor<0xf32> {trainable}
// CHECK: fsdp.state @layers.1.weight
// CHECK-SAME: unit = ""
fsdp.state @layers.1.weight parameter : tensor<0x2xf32> {trainable}

func.func @step() -> (tensor<2x4xf32>, tensor<0xf32>, tensor<0x2xf32>) {
  %0 = fsdp.load @layers.0.weight : tensor<2x4xf32>
  %1 = fsdp.load @layers.0.empty : tensor<0xf32>
  %2 = fsdp.load @layers.1.weight : tensor<0x2xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<0xf32>, tensor<0x2xf32>
}
