// A step of one block, y = x + dropout(tanh(x w')), and a sum: as export would
// write it, with the module of each op.
#block = loc("block"("model.py":3:0))
#root = loc("model.py":9:0)
module {
  fsdp.training {source = "model.py", seed = 0 : i64, hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-02 : f64>]}
  fsdp.module "" class "Model"
  fsdp.module "block" class "Block"
  fsdp.unit "block"
  fsdp.unit "" root
  fsdp.state @block.w parameter : tensor<4x4xf32> {trainable, group = 0 : i64, unit = "block"}
  fsdp.state @block.seen buffer : tensor<4x4xf32> {persistent}

  func.func private @"sgd.0"(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %p1 = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1 : tensor<*xf32>
  }

  func.func @step(%x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w = fsdp.load @block.w : tensor<4x4xf32>
    %wt = aten.call "t"(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>> loc(#block)
    %h = aten.call "mm"(%x, %wt) : (tensor<4x4xf32>, tensor<4x4xf32, #aten.strides<[1, 4]>>) -> tensor<4x4xf32> loc(#block)
    %a = aten.call "tanh"(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %mask = aten.call "bernoulli.p"(%a) {p = 0.5 : f64, generator = #aten.generator<7>} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %d = aten.call "mul.Tensor"(%a, %mask) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %seen = aten.call "neg"(%d) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %y = aten.call "add.Tensor"(%x, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %loss = aten.call "sum"(%y) : (tensor<4x4xf32>) -> tensor<f32> loc(#root)
    %dy = aten.call "full"() backward {size = array<i64: 4, 4>, fill_value = 1.0 : f64, dtype = f32} : () -> tensor<4x4xf32> loc(#root)
    %da = aten.call "mul.Tensor"(%dy, %mask) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %dh = aten.call "tanh_backward"(%da, %a) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %xt = aten.call "t"(%x) backward : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>> loc(#block)
    %gt = aten.call "mm"(%xt, %dh) backward : (tensor<4x4xf32, #aten.strides<[1, 4]>>, tensor<4x4xf32>) -> tensor<4x4xf32> loc(#block)
    %g = aten.call "t"(%gt) backward : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<[1, 4]>> loc(#block)
    fsdp.store %seen, @block.seen : tensor<4x4xf32>
    fsdp.update @"sgd.0" @block.w, %g [] : tensor<4x4xf32, #aten.strides<[1, 4]>>
    return %loss : tensor<f32>
  }
}
