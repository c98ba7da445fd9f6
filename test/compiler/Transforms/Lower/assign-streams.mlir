// Tests that every op that becomes a command gets a stream, gathers and reductions one each where there are three, and loads and step scalars none.
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=1 | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=3 | FileCheck %s --check-prefixes=CHECK,THREE

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
  // CHECK: fsdp.hyperparameter "lr" of 0
  // CHECK-NOT: fsdp.stream
  %lr = fsdp.hyperparameter "lr" of 0
  // CHECK: fsdp.pack {{.*}}fsdp.stream = 0 : i64
  %in = fsdp.pack %w {members = [#fsdp.member<offset = 0, bytes = 16, blocks = 1>]} : (tensor<4xf32>) -> tensor<64xui8>
  // ONE: fsdp.all_gather_start {{.*}}fsdp.stream = 0 : i64
  // THREE: fsdp.all_gather_start {{.*}}fsdp.stream = 1 : i64
  %f = fsdp.all_gather_start %in {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  // CHECK: fsdp.wait {{.*}}fsdp.stream = 0 : i64
  %all = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
  // CHECK: aten.call "ones"{{.*}}fsdp.stream = 0 : i64
  %g = aten.call "ones"() {size = array<i64: 2, 16>} : () -> tensor<2x16xf32>
  // ONE: fsdp.reduce_scatter_start {{.*}}fsdp.stream = 0 : i64
  // THREE: fsdp.reduce_scatter_start {{.*}}fsdp.stream = 2 : i64
  %r = fsdp.reduce_scatter_start %g {unit = ""} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
  %sum = fsdp.wait %r : !fsdp.future<tensor<16xf32>>
  // ONE: fsdp.all_reduce_start {{.*}}fsdp.stream = 0 : i64
  // THREE: fsdp.all_reduce_start {{.*}}fsdp.stream = 2 : i64
  %m = fsdp.all_reduce_start sum norm %sum : !fsdp.future<tensor<16xf32>>
  %total = fsdp.wait %m : !fsdp.future<tensor<16xf32>>
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
