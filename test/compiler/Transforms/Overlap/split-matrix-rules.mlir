// Tests that a rule which looks at a whole matrix is given its rows of the result, and stays of elements.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-split-matrix-rules | FileCheck %s

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<2x4xf32> {trainable, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @"w/m" optimizer : tensor<2x4xf32> {parameter = @w, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>}

// CHECK-NOT: @rule(
// CHECK: func.func private @rule.elements(%[[P:.*]]: tensor<*xf32>, %[[G:.*]]: tensor<*xf32>, %[[M:.*]]: tensor<*xf32>, %[[U:.*]]: tensor<*xbf16>) -> (tensor<*xf32>, tensor<*xf32>)
// CHECK-NEXT: %[[SUM:.*]] = aten.call "add.Tensor"(%[[M]], %[[G]]) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
// CHECK-NEXT: %[[NEW:.*]] = aten.call "sub.Tensor"(%[[P]], %[[U]]) : (tensor<*xf32>, tensor<*xbf16>) -> tensor<*xf32>
// CHECK-NEXT: return %[[NEW]], %[[SUM]]
func.func private @rule(%p: tensor<3x4xf32>, %g: tensor<3x4xf32>, %m: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) attributes {fsdp.rule} {
  %sum = aten.call "add.Tensor"(%m, %g) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %b = aten.call "_to_copy"(%sum) {dtype = bf16} : (tensor<3x4xf32>) -> tensor<3x4xbf16>
  %n = aten.call "norm.Scalar"(%b) : (tensor<3x4xbf16>) -> tensor<bf16>
  %u = aten.call "div.Tensor"(%b, %n) : (tensor<3x4xbf16>, tensor<bf16>) -> tensor<3x4xbf16>
  %new = aten.call "sub.Tensor"(%p, %u) : (tensor<3x4xf32>, tensor<3x4xbf16>) -> tensor<3x4xf32>
  return %new, %sum : tensor<3x4xf32>, tensor<3x4xf32>
}

// CHECK: func.func @step(%[[GRADIENT:.*]]: tensor<2x4xf32>, %[[SCALE:.*]]: tensor<f32>)
func.func @step(%g: tensor<2x4xf32>, %s: tensor<f32>) {
  // CHECK: %[[MOMENTUM:.*]] = fsdp.load @"w/m" : tensor<2x4xf32>
  // CHECK-NEXT: %[[SCALED:.*]] = aten.call "mul.Tensor"(%[[GRADIENT]], %[[SCALE]])
  // CHECK-NEXT: aten.call "add.Tensor"(%[[MOMENTUM]], %[[SCALED]]) {{.*}} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: fsdp.all_gather %{{.*}} {region = #fsdp<region update>, unit = ""} : tensor<16xui8> -> tensor<32xui8>
  // CHECK-NEXT: fsdp.unpack %{{.*}} {members = [#fsdp.member<offset = 0, bytes = 24, blocks = 1>]} : (tensor<32xui8>) -> tensor<3x4xbf16>
  // CHECK: aten.call "constant_pad_nd"(%{{.*}}) backward {pad = array<i64: 0, 0, 0, 1>} : (tensor<3x4xbf16>) -> tensor<4x4xbf16>
  // CHECK: fsdp.keep %{{.*}} {ranks = 2 : i64} : tensor<32xui8> -> tensor<16xui8>
  // CHECK-NEXT: %[[ROWS:.*]] = fsdp.unpack
  // CHECK-NEXT: fsdp.update @rule.elements @w, %[[GRADIENT]] [@"w/m"] given %[[ROWS]] : tensor<2x4xbf16> scale %[[SCALE]] : tensor<f32> : tensor<2x4xf32>
  fsdp.update @rule @w, %g [@"w/m"] scale %s : tensor<f32> : tensor<2x4xf32>
  return
}
