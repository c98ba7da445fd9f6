// Tests that units which the model names are kept, whatever the option says, and
// only put in the order of their first use; a replicated parameter is in none.
// RUN: fsdp-opt %s --fsdp-assign-units="units=class:Linear" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-assign-units --fsdp-assign-units | FileCheck %s
// RUN: fsdp-opt %s --fsdp-assign-units="units=class:Linear" -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: fsdp.unit "b" {reshard = false}
// CHECK-NEXT: fsdp.unit "" root
// CHECK-NEXT: fsdp.unit "a"
// CHECK-NOT: fsdp.unit
fsdp.module "" class "Net"
fsdp.module "a" class "Linear"
fsdp.module "b" class "Linear"
fsdp.unit "" root
fsdp.unit "a"
fsdp.unit "b" {reshard = false}

// CHECK: fsdp.state @a.w {{.*}}unit = "a"
fsdp.state @a.w parameter : tensor<4xf32> {trainable, unit = "a"}
// CHECK: fsdp.state @b.w {{.*}}unit = "b"
fsdp.state @b.w parameter : tensor<4xf32> {trainable, unit = "b"}
// CHECK: fsdp.state @b.scale {{.*}}{replicated}
fsdp.state @b.scale parameter : tensor<f32> {replicated}
// CHECK: fsdp.state @w {{.*}}unit = ""
fsdp.state @w parameter : tensor<4xf32> {trainable, unit = ""}

func.func @step() -> (tensor<4xf32>, tensor<4xf32>) {
  %s = fsdp.load @b.scale : tensor<f32>
  %b = fsdp.load @b.w : tensor<4xf32>
  %w = fsdp.load @w : tensor<4xf32>
  %0 = aten.call "mul.Tensor"(%b, %s) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = aten.call "relu"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// REMARK: remark: {{.*}}units=class:Linear gives way to the units that the model names
