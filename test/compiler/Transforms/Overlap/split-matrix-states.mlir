// Tests that state of another shape than its matrix is gathered beside it and given back by parts, and that what holds a number is taken as one.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-split-matrix-rules | FileCheck %s

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<2x4xf32> {trainable, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @"w/columns" optimizer : tensor<1x2xf32> {parameter = @w, global = tensor<1x4xf32>, sharding = #fsdp.sharding<@mesh, [[], [0]]>}

// The parameter is gathered once, though the rule scales its rows as well.
// CHECK: func.func private @rule.elements(%{{.*}}: tensor<*xf32>, %{{.*}}: tensor<*xf32>, %{{.*}}: tensor<*xf32>, %[[W:.*]]: tensor<*xf32>, %[[C:.*]]: tensor<*xf32>)
// CHECK-NEXT: return %[[W]], %[[C]]
func.func private @rule(%p: tensor<3x4xf32>, %g: tensor<3x4xf32>, %c: tensor<1x4xf32>) -> (tensor<3x4xf32>, tensor<1x4xf32>) attributes {fsdp.rule} {
  %s = aten.call "mul.Tensor"(%p, %p) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %m = aten.call "sum.dim_IntList"(%g) {dim = array<i64: 0>, keepdim = true} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %new_c = aten.call "add.Tensor"(%c, %m) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  %n = aten.call "norm.Scalar"(%p) : (tensor<3x4xf32>) -> tensor<f32>
  %d = aten.call "_to_copy"(%n) {dtype = f64} : (tensor<f32>) -> tensor<f64>
  %new = aten.call "add.Tensor"(%s, %g, item %d) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f64>) -> tensor<3x4xf32>
  return %new, %new_c : tensor<3x4xf32>, tensor<1x4xf32>
}

func.func @step(%g: tensor<2x4xf32>) {
  // CHECK: %[[P:.*]] = fsdp.load @w
  // CHECK: %[[COLUMNS:.*]] = fsdp.load @"w/columns" : tensor<1x2xf32>
  // CHECK: fsdp.all_gather %{{.*}} {region = #fsdp<region update>, unit = ""} : tensor<192xui8> -> tensor<384xui8>
  // CHECK: fsdp.unpack {{.*}} blocks = 2>{{.*}}-> (tensor<
  // CHECK: aten.call "add.Tensor"(%{{.*}}, %{{.*}}, item %{{.*}}) backward : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<f64>)
  // CHECK: fsdp.keep {{.*}} : tensor<256xui8> -> tensor<128xui8>
  // CHECK: fsdp.update @rule.elements @w, %{{.*}} [@"w/columns"] given %{{.*}}, %{{.*}} : tensor<2x4xf32>, tensor<1x2xf32> : tensor<2x4xf32>
  fsdp.update @rule @w, %g [@"w/columns"] : tensor<2x4xf32>
  return
}
