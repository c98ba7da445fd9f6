// Tests that blocks are units, and not the layers that repeat beside their list,
// as the parts of nanoGPT do in a ModuleDict; without blocks, layers are.
// RUN: fsdp-opt %s --fsdp-assign-units | FileCheck %s
// RUN: sed 's/class "Block"/class "Linear"/; /class "Mlp"/d' %s | fsdp-opt --fsdp-assign-units | FileCheck %s --check-prefix=LAYERS

fsdp.module "" class "GPT"
fsdp.module "parts" class "ModuleDict" container
fsdp.module "parts.wte" class "Embedding"
fsdp.module "parts.wpe" class "Embedding"
fsdp.module "parts.drop" class "Dropout"
fsdp.module "parts.h" class "ModuleList" container
fsdp.module "parts.h.0" class "Block"
fsdp.module "parts.h.0.mlp" class "Mlp"
fsdp.module "parts.h.1" class "Block"
fsdp.module "parts.h.1.mlp" class "Mlp"
fsdp.module "parts.norm" class "LayerNorm"

// CHECK: fsdp.state @parts.wte.w {{.*}}unit = ""
// LAYERS: fsdp.state @parts.wte.w {{.*}}unit = "parts.wte"
fsdp.state @parts.wte.w parameter : tensor<8x4xf32>
// CHECK: fsdp.state @parts.wpe.w {{.*}}unit = ""
// LAYERS: fsdp.state @parts.wpe.w {{.*}}unit = "parts.wpe"
fsdp.state @parts.wpe.w parameter : tensor<4x4xf32>
// CHECK: fsdp.state @parts.h.0.mlp.w {{.*}}unit = "parts.h.0"
// LAYERS: fsdp.state @parts.h.0.mlp.w {{.*}}unit = "parts.h"
fsdp.state @parts.h.0.mlp.w parameter : tensor<4x4xf32>
// CHECK: fsdp.state @parts.h.1.mlp.w {{.*}}unit = "parts.h.1"
// LAYERS: fsdp.state @parts.h.1.mlp.w {{.*}}unit = "parts.h"
fsdp.state @parts.h.1.mlp.w parameter : tensor<4x4xf32>
// CHECK: fsdp.state @parts.norm.w {{.*}}unit = ""
// LAYERS: fsdp.state @parts.norm.w {{.*}}unit = "parts.norm"
fsdp.state @parts.norm.w parameter : tensor<4xf32>

func.func @step() {
  return
}
