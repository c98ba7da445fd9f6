// Tests that an attention which no kernel computes says why, and how to go on.
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda -split-input-file -verify-diagnostics
// RUN: not fsdp-opt %s --fsdp-select-kernels=device=tpu -split-input-file 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fsdp-opt %s --fsdp-select-kernels=attention=fast -split-input-file 2>&1 | FileCheck %s --check-prefix=KERNEL
// RUN: not fsdp-opt %s --fsdp-select-kernels="device=cuda attention=flash,cudnn" -split-input-file 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: echo 'fsdp.training {mesh = array<i64: 2>, mesh_device = "cuda"}' | not fsdp-opt --fsdp-select-kernels 2>&1 | FileCheck %s --check-prefix=MESH
// RUN: echo 'fsdp.training {mesh = array<i64: 2>, mesh_device = "cpu"}' | not fsdp-opt --fsdp-select-kernels=device=cuda 2>&1 | FileCheck %s --check-prefix=CPUS

// MESH: error: 'fsdp.training' op asks for ranks on cuda, but device=cpu; give device=cuda, or describe a mesh of cpu
// CPUS: error: 'fsdp.training' op asks for ranks on cpu, but device=cuda; give device=cpu, or describe a mesh of cuda
// DEVICE: error: device=tpu does not exist; there are cpu and cuda
// KERNEL: error: attention=fast does not exist; it is a list of flash, efficient and cudnn, best first

func.func @step(%q: tensor<1x2x8x16xf64>) -> tensor<1x2x8x16xf64> {
  // expected-error @+1 {{has no kernel on GPUs: flash computes in f16 or bf16, not f64; efficient computes in f16, bf16 or f32, not f64; run the model under torch.nn.attention.sdpa_kernel(SDPBackend.MATH), which captures matrix products}}
  %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q) : (tensor<1x2x8x16xf64>, tensor<1x2x8x16xf64>, tensor<1x2x8x16xf64>) -> (tensor<1x2x8x16xf64>, tensor<1x2x8xf64, #aten.strides<[16, 1, 2]>>)
  return %a#0 : tensor<1x2x8x16xf64>
}

// -----

// SIZE: has no kernel on GPUs: flash takes head sizes up to 256, not 320; cudnn takes head sizes up to 128, not 320; run the model
func.func @step(%q: tensor<1x2x8x320xbf16>) -> tensor<1x2x8x320xbf16> {
  %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q) : (tensor<1x2x8x320xbf16>, tensor<1x2x8x320xbf16>, tensor<1x2x8x320xbf16>) -> (tensor<1x2x8x320xbf16>, tensor<1x2x8xf32, #aten.strides<[16, 1, 2]>>)
  return %a#0 : tensor<1x2x8x320xbf16>
}
