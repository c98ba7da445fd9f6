// A step of two blocks and a head, written down as export would: odd sizes, a
// view chain from forward that backward reads, a frozen head, a buffer.
module {
  fsdp.training {source = "mlp.py", seed = 0 : i64, hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-02 : f64>]}
  fsdp.module "" class "MLP"
  fsdp.module "blocks" class "ModuleList"
  fsdp.module "blocks.0" class "Linear"
  fsdp.module "blocks.1" class "Linear"
  fsdp.module "head" class "Head"
  fsdp.state @"blocks.0.w" parameter : tensor<5x3xf32> {trainable, group = 0 : i64}
  fsdp.state @"blocks.0.w/momentum_buffer" optimizer : tensor<5x3xf32> {parameter = @"blocks.0.w"}
  fsdp.state @"blocks.1.w" parameter : tensor<4x5xf32> {trainable, group = 0 : i64}
  fsdp.state @"blocks.1.w/momentum_buffer" optimizer : tensor<4x5xf32> {parameter = @"blocks.1.w"}
  fsdp.state @"head.w" parameter : tensor<2x4xf32>
  fsdp.state @calls buffer : tensor<2x4xf32> {persistent}

  func.func private @"sgd.0"(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %m1 = aten.call "mul.Scalar"(%m) {other = 0.9 : f64} : (tensor<*xf32>) -> tensor<*xf32>
    %m2 = aten.call "add.Tensor"(%m1, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %d = aten.call "mul.Scalar"(%m2, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %p1 = aten.call "sub.Tensor"(%p, %d) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1, %m2 : tensor<*xf32>, tensor<*xf32>
  }

  func.func @step(%x: tensor<2x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w0 = fsdp.load @"blocks.0.w" : tensor<5x3xf32>
    %w1 = fsdp.load @"blocks.1.w" : tensor<4x5xf32>
    %wh = fsdp.load @"head.w" : tensor<2x4xf32>
    %t0 = aten.call "t"(%w0) : (tensor<5x3xf32>) -> tensor<3x5xf32, #aten.strides<[1, 3]>>
    %h0 = aten.call "mm"(%x, %t0) : (tensor<2x3xf32>, tensor<3x5xf32, #aten.strides<[1, 3]>>) -> tensor<2x5xf32>
    %t1 = aten.call "t"(%w1) : (tensor<4x5xf32>) -> tensor<5x4xf32, #aten.strides<[1, 5]>>
    %h1 = aten.call "mm"(%h0, %t1) : (tensor<2x5xf32>, tensor<5x4xf32, #aten.strides<[1, 5]>>) -> tensor<2x4xf32>
    %y = aten.call "mul.Tensor"(%h1, %wh) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %loss = aten.call "sum"(%y) : (tensor<2x4xf32>) -> tensor<f32>
    %one = aten.call "full"() backward {size = array<i64>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<f32>
    %e = aten.call "expand"(%one) backward {size = array<i64: 2, 4>} : (tensor<f32>) -> tensor<2x4xf32, #aten.strides<[0, 0]>>
    %dh1 = aten.call "mul.Tensor"(%e, %wh) backward : (tensor<2x4xf32, #aten.strides<[0, 0]>>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %dt1 = aten.call "t"(%dh1) backward : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<[1, 4]>>
    %g1 = aten.call "mm"(%dt1, %h0) backward : (tensor<4x2xf32, #aten.strides<[1, 4]>>, tensor<2x5xf32>) -> tensor<4x5xf32>
    %tt1 = aten.call "t"(%t1) backward : (tensor<5x4xf32, #aten.strides<[1, 5]>>) -> tensor<4x5xf32>
    %dh0 = aten.call "mm"(%dh1, %tt1) backward : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
    %tx = aten.call "t"(%x) backward : (tensor<2x3xf32>) -> tensor<3x2xf32, #aten.strides<[1, 3]>>
    %gt = aten.call "mm"(%tx, %dh0) backward : (tensor<3x2xf32, #aten.strides<[1, 3]>>, tensor<2x5xf32>) -> tensor<3x5xf32>
    %g0 = aten.call "t"(%gt) backward : (tensor<3x5xf32>) -> tensor<5x3xf32, #aten.strides<[1, 5]>>
    fsdp.store %h1, @calls : tensor<2x4xf32>
    fsdp.update @"sgd.0" @"blocks.0.w", %g0 [@"blocks.0.w/momentum_buffer"] : tensor<5x3xf32, #aten.strides<[1, 5]>>
    fsdp.update @"sgd.0" @"blocks.1.w", %g1 [@"blocks.1.w/momentum_buffer"] : tensor<4x5xf32>
    return %loss : tensor<f32>
  }

  func.func @eval(%x: tensor<2x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w0 = fsdp.load @"blocks.0.w" : tensor<5x3xf32>
    %t0 = aten.call "t"(%w0) : (tensor<5x3xf32>) -> tensor<3x5xf32, #aten.strides<[1, 3]>>
    %h0 = aten.call "mm"(%x, %t0) : (tensor<2x3xf32>, tensor<3x5xf32, #aten.strides<[1, 3]>>) -> tensor<2x5xf32>
    %loss = aten.call "mean"(%h0) : (tensor<2x5xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
