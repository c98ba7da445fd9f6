// Tests that in a plan for GPUs small updates follow each other, behind the
// casts of their gradients.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-group-updates -split-input-file | FileCheck %s

module attributes {fsdp.device = "cuda"} {
  fsdp.state @w parameter : tensor<4xf32> {trainable}
  fsdp.state @b parameter : tensor<2xf32> {trainable}
  fsdp.state @v parameter : tensor<4xf32> {trainable}
  fsdp.state @large parameter : tensor<16777216xf32> {trainable}
  func.func private @decayed(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %g : tensor<*xf32>
  }
  func.func private @plain(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %g : tensor<*xf32>
  }

  // Those of a rule come together.
  // CHECK-LABEL: func.func @step
  // CHECK-COUNT-3: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @decayed @w
  // CHECK-NEXT: fsdp.update @decayed @v
  // CHECK-NEXT: fsdp.update @plain @b
  // CHECK-NEXT: return
  func.func @step(%0: tensor<4xbf16>, %1: tensor<2xbf16>, %2: tensor<4xbf16>) {
    %3 = aten.call "_to_copy"(%0) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @decayed @w, %3 [] : tensor<4xf32>
    %4 = aten.call "_to_copy"(%1) backward {dtype = f32} : (tensor<2xbf16>) -> tensor<2xf32>
    fsdp.update @plain @b, %4 [] : tensor<2xf32>
    %5 = aten.call "_to_copy"(%2) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @decayed @v, %5 [] : tensor<4xf32>
    return
  }

  // A gradient that may be another parameter keeps its place among updates.
  // CHECK-LABEL: func.func @alias
  // CHECK: fsdp.update @plain @w
  // CHECK-NEXT: fsdp.update @decayed @v
  func.func @alias(%0: tensor<4xf32>, %1: tensor<4xf32>) {
    fsdp.update @plain @w, %0 [] : tensor<4xf32>
    fsdp.update @decayed @v, %1 [] : tensor<4xf32>
    return
  }

  // What is between other than casts ends a group, and so does a scale.
  // CHECK-LABEL: func.func @apart
  // CHECK: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @w
  // CHECK-NEXT: aten.call "neg"
  // CHECK-NEXT: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @v
  // CHECK-NEXT: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @b, %{{.*}} [] scale
  func.func @apart(%0: tensor<4xbf16>, %1: tensor<2xbf16>, %2: tensor<f32>) {
    %3 = aten.call "_to_copy"(%0) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @plain @w, %3 [] : tensor<4xf32>
    %4 = aten.call "neg"(%0) backward : (tensor<4xbf16>) -> tensor<4xbf16>
    %5 = aten.call "_to_copy"(%4) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @plain @v, %5 [] : tensor<4xf32>
    %6 = aten.call "_to_copy"(%1) backward {dtype = f32} : (tensor<2xbf16>) -> tensor<2xf32>
    fsdp.update @plain @b, %6 [] scale %2 : tensor<f32> : tensor<2xf32>
    return
  }

  // A group's gradients have at most 64 MiB.
  // CHECK-LABEL: func.func @full
  // CHECK: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @large
  // CHECK-NEXT: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @w
  func.func @full(%0: tensor<16777216xbf16>, %1: tensor<4xbf16>) {
    %2 = aten.call "_to_copy"(%0) backward {dtype = f32} : (tensor<16777216xbf16>) -> tensor<16777216xf32>
    fsdp.update @plain @large, %2 [] : tensor<16777216xf32>
    %3 = aten.call "_to_copy"(%1) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @plain @w, %3 [] : tensor<4xf32>
    return
  }
}

// -----

// CPUs do not launch: nothing changes.
module {
  fsdp.state @w parameter : tensor<4xf32> {trainable}
  fsdp.state @v parameter : tensor<4xf32> {trainable}
  func.func private @plain(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %g : tensor<*xf32>
  }
  // CHECK-LABEL: func.func @step
  // CHECK: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @w
  // CHECK-NEXT: aten.call "_to_copy"
  // CHECK-NEXT: fsdp.update @plain @v
  func.func @step(%0: tensor<4xbf16>, %1: tensor<4xbf16>) {
    %2 = aten.call "_to_copy"(%0) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @plain @w, %2 [] : tensor<4xf32>
    %3 = aten.call "_to_copy"(%1) backward {dtype = f32} : (tensor<4xbf16>) -> tensor<4xf32>
    fsdp.update @plain @v, %3 [] : tensor<4xf32>
    return
  }
}
