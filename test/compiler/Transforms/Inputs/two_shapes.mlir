// A step for batches of two shapes: two programs that train the same states.
module {
  fsdp.training {source = "shapes.py", seed = 0 : i64, hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-02 : f64>]}
  fsdp.module "" class "Model"
  fsdp.state @w parameter : tensor<5x3xf32> {trainable, group = 0 : i64}
  fsdp.state @v parameter : tensor<5x3xf32> {trainable, group = 0 : i64}

  func.func private @sgd.0(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %d = aten.call "mul.Scalar"(%g, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %p1 = aten.call "sub.Tensor"(%p, %d) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1 : tensor<*xf32>
  }
  func.func private @sgd.1(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %p1 = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1 : tensor<*xf32>
  }

  func.func @step(%x: tensor<5x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w = fsdp.load @w : tensor<5x3xf32>
    %v = fsdp.load @v : tensor<5x3xf32>
    %wv = aten.call "add.Tensor"(%w, %v) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %y = aten.call "mul.Tensor"(%x, %wv) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %loss = aten.call "sum"(%y) : (tensor<5x3xf32>) -> tensor<f32>
    %g = aten.call "mul.Scalar"(%x) backward {other = 1.0 : f64} : (tensor<5x3xf32>) -> tensor<5x3xf32>
    fsdp.update @sgd.0 @w, %g [] : tensor<5x3xf32>
    fsdp.update @sgd.0 @v, %g [] : tensor<5x3xf32>
    return %loss : tensor<f32>
  }

  func.func @step_2(%x: tensor<2x5x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.variant_of = @step} {
    %w = fsdp.load @w : tensor<5x3xf32>
    %v = fsdp.load @v : tensor<5x3xf32>
    %wv = aten.call "add.Tensor"(%w, %v) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %y = aten.call "mul.Tensor"(%x, %wv) : (tensor<2x5x3xf32>, tensor<5x3xf32>) -> tensor<2x5x3xf32>
    %loss = aten.call "sum"(%y) : (tensor<2x5x3xf32>) -> tensor<f32>
    %g = aten.call "sum.dim_IntList"(%x) backward {dim = array<i64: 0>} : (tensor<2x5x3xf32>) -> tensor<5x3xf32>
    fsdp.update @sgd.0 @w, %g [] : tensor<5x3xf32>
    fsdp.update @sgd.0 @v, %g [] : tensor<5x3xf32>
    return %loss : tensor<f32>
  }
}
