// Tests that units are found by repetition, class, path and size, stand in the
// order of their first use, and that a tied weight goes to the root.
// RUN: fsdp-opt %s --fsdp-assign-units | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: fsdp-opt %s --fsdp-assign-units="units=class:Mlp" | FileCheck %s --check-prefixes=CHECK,CLASS
// RUN: fsdp-opt %s --fsdp-assign-units="units=(embed|blocks)" | FileCheck %s --check-prefixes=CHECK,REGEX
// RUN: fsdp-opt %s --fsdp-assign-units="units=48" | FileCheck %s --check-prefixes=CHECK,BYTES
// RUN: fsdp-opt %s --fsdp-assign-units -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

fsdp.module "" class "GPT"
fsdp.module "embed" class "Embedding"
fsdp.module "blocks" class "ModuleList"
fsdp.module "blocks.0" class "Block"
fsdp.module "blocks.0.mlp" class "Mlp"
fsdp.module "blocks.1" class "Block"
fsdp.module "blocks.1.mlp" class "Mlp"
fsdp.module "blocks.2" class "Dropout"

// AUTO: fsdp.unit "" root
// AUTO-NEXT: fsdp.unit "blocks.1"
// AUTO-NEXT: fsdp.unit "blocks.0"
// AUTO-NOT: fsdp.unit
// CLASS: fsdp.unit "" root
// CLASS-NEXT: fsdp.unit "blocks.1.mlp"
// CLASS-NEXT: fsdp.unit "blocks.0.mlp"
// REGEX: fsdp.unit "embed"
// REGEX-NEXT: fsdp.unit "blocks"
// REGEX-NEXT: fsdp.unit "" root
// BYTES: fsdp.unit "unit.0"
// BYTES-NEXT: fsdp.unit "unit.1"
// BYTES-NEXT: fsdp.unit "unit.2"
// BYTES-NEXT: fsdp.unit "" root

// CHECK: fsdp.state @embed.w
// AUTO-SAME: unit = ""
// CLASS-SAME: unit = ""
// REGEX-SAME: unit = "embed"
// BYTES-SAME: unit = "unit.0"
fsdp.state @embed.w parameter : tensor<4x4xf32> {trainable}
// CHECK: fsdp.state @blocks.0.mlp.w
// AUTO-SAME: unit = "blocks.0"
// CLASS-SAME: unit = "blocks.0.mlp"
// REGEX-SAME: unit = "blocks"
// BYTES-SAME: unit = "unit.2"
fsdp.state @blocks.0.mlp.w parameter : tensor<4x4xf32> {trainable}
// CHECK: fsdp.state @blocks.1.mlp.w
// AUTO-SAME: unit = "blocks.1"
// CLASS-SAME: unit = "blocks.1.mlp"
// REGEX-SAME: unit = "blocks"
// BYTES-SAME: unit = "unit.1"
fsdp.state @blocks.1.mlp.w parameter : tensor<2x4xf32> {trainable}
// CHECK: fsdp.state @blocks.0.tied
// AUTO-SAME: unit = ""
// CLASS-SAME: unit = ""
// REGEX-SAME: unit = "blocks"
// BYTES-SAME: unit = "unit.1"
fsdp.state @blocks.0.tied parameter : tensor<4xf32> {trainable, aliases = ["blocks.1.tied"]}

func.func @step() -> (tensor<4x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %w0 = fsdp.load @blocks.0.mlp.w : tensor<4x4xf32>
  %w1 = fsdp.load @blocks.1.mlp.w : tensor<2x4xf32>
  %e = fsdp.load @embed.w : tensor<4x4xf32>
  %t = fsdp.load @blocks.0.tied : tensor<4xf32>
  %0 = aten.call "relu"(%e) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = aten.call "relu"(%w1) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = aten.call "relu"(%t) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.call "relu"(%w0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0, %1, %2, %3 : tensor<4x4xf32>, tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}

// REMARK: remark: {{.*}}tied{{.*}}it is reached from two units and goes to the root", state=blocks.0.tied
// REMARK: remark: {{.*}}a unit", bytes=80, parameters=2, unit={{$}}
