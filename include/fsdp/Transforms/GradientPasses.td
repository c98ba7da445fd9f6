// The passes of fsdp-shard that change gradients, in the order of the pipeline.

#ifndef FSDP_GRADIENT_PASSES_TD
#define FSDP_GRADIENT_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def InsertGradReduction
    : ModulePass<"fsdp-insert-grad-reduction"> {
  let summary = "Averages the gradients of sharded parameters over the ranks";
  let description = [{
    Input IR: states have shardings; units may have a `reduce_dtype`.

    Output IR: each `fsdp.update` of a sharded parameter reads an
    `fsdp.reduce_grad`, which stands right after the gradient it averages. A
    gradient that is not row-major is cloned first.

    A gradient is reduced in the unit's `reduce_dtype`, or else in `reduce-dtype`,
    or else in the dtype that backward computes it in. Where the dtypes differ, a
    precision cast precedes the reduction, and one to the parameter's dtype
    follows it. A mesh of one rank reduces nothing. It still has the casts, so
    that it rounds as several ranks would, and a division by the unit's own
    `gradient_divisor`.

    What holds: a parameter without an update has no reduction.

    Why: each rank has the gradient of its own batch, and their mean is that of
    the global batch. A unit's `gradient_divisor` asks for another multiple of
    their sum.

    Input:

    ```mlir
    // fsdp-opt --fsdp-insert-grad-reduction
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<4x4xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %n : tensor<*xf32>
    }
    func.func @step(%x: tensor<4x4xf32> {fsdp.input = "x"}) {
      %g = aten.call "neg"(%x) backward : (tensor<4x4xf32>) -> tensor<4x4xf32>
      fsdp.update @sgd @w, %g [] : tensor<4x4xf32>
      return
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<4x4xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4x4xf32> {fsdp.input = "x"}) {
      %0 = aten.call "neg"(%arg0) backward : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %1 = fsdp.reduce_grad %0 {unit = ""} : tensor<4x4xf32>
      fsdp.update @sgd @w, %1 [] : tensor<4x4xf32>
      return
    }
    ```
  }];
  let options = [ReduceDtypeOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def AccumulateGradients
    : ModulePass<"fsdp-accumulate-gradients"> {
  let summary = "Splits a step of several micro-batches into two programs";
  let description = [{
    Input IR: `accumulate = K` of `fsdp.training`, micro-batches per step.
    Without it, or with 1, nothing changes.

    Output IR: a state `@"w/grad"` of the role `gradient` for each gradient that
    an update reads, as backward gives it: whole, each rank's own. The program
    `@accumulate`, for every micro-batch but the last, is `@step` with an
    `fsdp.accumulate` in place of reductions and updates. `@step`, for the last
    one, reduces the state plus its own gradient, and puts the state back to
    -0.0. Backward starts with 1/K in both.

    With `accumulate-reduce=each` the pass runs after `fsdp-localize`. The
    states are each rank's part then, as the update reads them, and
    `@accumulate` reduces too. This takes less memory and more communication.
    Where there are replicas, the states are parts of sums that are not divided
    yet. `@accumulate` sums over the shards alone. `@step` adds the state to its
    own such sum, sums over the replicas, and divides once.

    What holds: where the pass runs before `fsdp-localize`, only `@step`
    communicates gradients. The sum is taken in the order of the micro-batches,
    from the first one on: -0.0 plus a number is that number in every bit.

    Why: a larger batch takes the memory and the communication of a smaller one,
    as `(loss / K).backward()` does in FSDP2 under
    `set_requires_gradient_sync(False)`.

    Input:

    ```mlir
    // fsdp-opt --fsdp-accumulate-gradients
    module {
      fsdp.training {accumulate = 2 : i64}
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        %one = aten.call "full"() {size = array<i64: 4>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<4xf32>
        %g = aten.call "mul.Tensor"(%one, %x) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        fsdp.update @sgd @w, %g [] : tensor<4xf32>
        return %x : tensor<4xf32>
      }
    }
    ```

    Output:

    ```mlir
    fsdp.training {accumulate = 2 : i64}
    fsdp.state @w parameter : tensor<4xf32> {trainable}
    fsdp.state @"w/grad" gradient : tensor<4xf32> {parameter = @w}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
      %0 = aten.call "full"() {dtype = f32, fill_value = 5.000000e-01 : f64, fsdp.cotangent, size = array<i64: 4>} : () -> tensor<4xf32>
      %1 = aten.call "mul.Tensor"(%0, %arg0) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %2 = fsdp.load @"w/grad" : tensor<4xf32>
      %3 = aten.call "add.Tensor"(%2, %1) backward accumulates : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %4 = aten.call "full_like"(%3) backward {fill_value = -0.000000e+00 : f64} : (tensor<4xf32>) -> tensor<4xf32>
      fsdp.store %4, @"w/grad" : tensor<4xf32>
      fsdp.update @sgd @w, %3 [] : tensor<4xf32>
      return %arg0 : tensor<4xf32>
    }
    func.func @accumulate(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
      %0 = aten.call "full"() {dtype = f32, fill_value = 5.000000e-01 : f64, fsdp.cotangent, size = array<i64: 4>} : () -> tensor<4xf32>
      %1 = aten.call "mul.Tensor"(%0, %arg0) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fsdp.accumulate %1, @"w/grad" : tensor<4xf32>
      return %arg0 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def AgreeOnSkips : ModulePass<"fsdp-agree-on-skips"> {
  let summary = "Leaves a parameter alone where no rank has its gradient";
  let description = [{
    Input IR: local types; updates with a `skip` that says of this rank's batch
    whether it lacks the gradient. Their rules count the steps that are skipped
    in a buffer, `fsdp.missed`.

    Output IR: updates are skipped where all ranks lack the gradient. One
    `fsdp.all_reduce max skip` over the axes of each role tells that of all of
    them. The buffers count the step.

    What holds: all ranks skip the same updates. Where some rank has a gradient,
    those that lack it add zeros, as DistributedDataParallel does. Without such
    updates nothing changes.

    Why: values may decide whether a step reaches a parameter. PyTorch's
    optimizers leave alone what has no gradient: it keeps its value, its state
    and its count of updates, and does not decay.

    Input:

    ```mlir
    // fsdp-opt --fsdp-agree-on-skips
    module {
      shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
      fsdp.state @fsdp.missed.0 buffer : tensor<f64>
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule, fsdp.missed = @fsdp.missed.0} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%g: tensor<4xf32> {fsdp.input = "g"}, %lacks: tensor<f32> {fsdp.input = "lacks"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        fsdp.update @sgd @w, %g [] skip %lacks : tensor<f32> : tensor<4xf32>
        return %g : tensor<4xf32>
      }
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.state @fsdp.missed.0 buffer : tensor<f64>
    fsdp.state @w parameter : tensor<4xf32> {trainable}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.missed = @fsdp.missed.0, fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "g"}, %arg1: tensor<f32> {fsdp.input = "lacks"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
      %0 = aten.call "stack"([%arg1]) backward : (tensor<f32>) -> tensor<1xf32>
      %1 = aten.call "eq.Scalar"(%0) backward {other = 0.000000e+00 : f64} : (tensor<1xf32>) -> tensor<1xi1>
      %2 = aten.call "_to_copy"(%1) backward {dtype = f32} : (tensor<1xi1>) -> tensor<1xf32>
      %3 = fsdp.all_reduce  max  skip %2 : tensor<1xf32>
      %4 = aten.call "eq.Scalar"(%3) backward {other = 0.000000e+00 : f64} : (tensor<1xf32>) -> tensor<1xi1>
      %5 = aten.call "_to_copy"(%4) backward {dtype = f32} : (tensor<1xi1>) -> tensor<1xf32>
      %6 = aten.call "select.int"(%5) backward {dim = 0 : i64, index = 0 : i64} : (tensor<1xf32>) -> tensor<f32>
      fsdp.update @sgd @w, %arg0 [] skip %6 : tensor<f32> : tensor<4xf32>
      %7 = fsdp.load @fsdp.missed.0 : tensor<f64>
      %8 = aten.call "add.Tensor"(%7, %6) backward : (tensor<f64>, tensor<f32>) -> tensor<f64>
      fsdp.store %8, @fsdp.missed.0 : tensor<f64>
      return %arg0 : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def ScaleLoss : ModulePass<"fsdp-scale-loss"> {
  let summary = "Scales the loss dynamically, so that small gradients survive";
  let description = [{
    Input IR: local types; `scaler` of `fsdp.training`, with the states
    `@fsdp.scaler.scale`, `@fsdp.scaler.growth_tracker` and
    `@fsdp.scaler.skipped_steps`; an op marked `fsdp.cotangent`. Without
    `scaler` nothing changes.

    Output IR: backward starts with the scale. After each unit's gradients comes
    their largest magnitude, and an `fsdp.all_reduce max overflow` of it over the axes of
    the mesh that gradients are cut over. Updates have the `scale` 1 / scale, and
    `skip` where the largest is not finite. `_amp_update_scale` gives the next
    scale, which is stored together with the number of skipped steps, as rules do
    not count those. The scale is the program's output `loss_scale`, the number
    `skipped_steps`.

    What holds: all ranks skip the same steps, and a skipped step changes no
    parameter and no optimizer state.

    Why: this is torch.amp.GradScaler with shards. Gradients are not unscaled in
    memory; the update multiplies them while they are in the cache.

    Input:

    ```mlir
    // fsdp-opt --fsdp-scale-loss
    module {
      fsdp.training {scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}}
      fsdp.state @fsdp.scaler.scale buffer : tensor<f32>
      fsdp.state @fsdp.scaler.growth_tracker buffer : tensor<i32>
      fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64>
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        %one = aten.call "full"() {size = array<i64>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<f32>
        %g = aten.call "mul.Tensor"(%x, %one) backward : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        fsdp.update @sgd @w, %g [] : tensor<4xf32>
        return %x : tensor<4xf32>
      }
    }
    ```

    Output:

    ```mlir
    fsdp.training {scaler = {backoff_factor = 5.000000e-01 : f64, growth_factor = 2.000000e+00 : f64, growth_interval = 2000 : i64}}
    fsdp.state @fsdp.scaler.scale buffer : tensor<f32>
    fsdp.state @fsdp.scaler.growth_tracker buffer : tensor<i32>
    fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64>
    fsdp.state @w parameter : tensor<4xf32> {trainable}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "loss_scale"}, tensor<f64> {fsdp.output = "skipped_steps"}) {
      %0 = aten.call "full"() {dtype = f32, fill_value = 1.000000e+00 : f64, fsdp.cotangent, size = array<i64>} : () -> tensor<f32>
      %1 = fsdp.load @fsdp.scaler.scale : tensor<f32>
      %2 = aten.call "mul.Tensor"(%1, %0) backward : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %3 = aten.call "mul.Tensor"(%arg0, %2) backward : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %4 = aten.call "fsdp_mlir::power_sum"([%3]) backward {p = 0x7FF0000000000000 : f64} : (tensor<4xf32>) -> tensor<f64>
      %5 = aten.call "isfinite"(%4) backward : (tensor<f64>) -> tensor<i1>
      %6 = aten.call "logical_not"(%5) backward : (tensor<i1>) -> tensor<i1>
      %7 = aten.call "_to_copy"(%6) backward {dtype = f32} : (tensor<i1>) -> tensor<f32>
      %8 = fsdp.load @fsdp.scaler.scale : tensor<f32>
      %9 = aten.call "_to_copy"(%8) backward {dtype = f64} : (tensor<f32>) -> tensor<f64>
      %10 = aten.call "reciprocal"(%9) backward : (tensor<f64>) -> tensor<f64>
      %11 = aten.call "_to_copy"(%10) backward {dtype = f32} : (tensor<f64>) -> tensor<f32>
      fsdp.update @sgd @w, %3 [] scale %11 : tensor<f32> skip %7 : tensor<f32> : tensor<4xf32>
      %12 = fsdp.load @fsdp.scaler.growth_tracker : tensor<i32>
      %13:2 = aten.call "_amp_update_scale"(%8, %12, %7) backward {growth_interval = 2000 : i64, scale_backoff_factor = 5.000000e-01 : f64, scale_growth_factor = 2.000000e+00 : f64} : (tensor<f32>, tensor<i32>, tensor<f32>) -> (tensor<f32>, tensor<i32>)
      fsdp.store %13#0, @fsdp.scaler.scale : tensor<f32>
      fsdp.store %13#1, @fsdp.scaler.growth_tracker : tensor<i32>
      %14 = fsdp.load @fsdp.scaler.skipped_steps : tensor<f64>
      %15 = aten.call "add.Tensor"(%14, %7) backward : (tensor<f64>, tensor<f32>) -> tensor<f64>
      fsdp.store %15, @fsdp.scaler.skipped_steps : tensor<f64>
      return %arg0, %8, %15 : tensor<4xf32>, tensor<f32>, tensor<f64>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect",
                           "::mlir::arith::ArithDialect"];
}

def ClipGradients : ModulePass<"fsdp-clip-gradients"> {
  let summary = "Bounds gradients by their norm";
  let description = [{
    Input IR: local types; of `fsdp.training`, `clip_grad_norm`: the largest
    norm, and its type (1, 2, any p >= 1, infinity). Without it nothing changes.

    Output IR: after each unit's gradients comes
    `aten.call "fsdp_mlir::power_sum"`, in float64. Then follow the sum over the
    units, an `fsdp.all_reduce` of that one number over the axes of the mesh that
    gradients are cut over, the norm, and the factor
    min(largest / (norm + 1e-6), 1), which is the `scale` of every update. The
    norm is the program's output `grad_norm`. An infinite bound asks for the norm
    alone.

    What holds: a gradient of several updates counts once. So does one that every
    rank has whole. Padding is zero. The updates stand at the end of the program.

    Why: this is PyTorch's clip_grad_norm_ with shards. No gradient is written
    again: the update multiplies it while it is in the cache, and gives the bits
    of clipping before the update.

    Input:

    ```mlir
    // fsdp-opt --fsdp-clip-gradients
    module {
      fsdp.training {clip_grad_norm = array<f64: 1.0, 2.0>}
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        %g = aten.call "neg"(%x) backward : (tensor<4xf32>) -> tensor<4xf32>
        fsdp.update @sgd @w, %g [] : tensor<4xf32>
        return %x : tensor<4xf32>
      }
    }
    ```

    Output:

    ```mlir
    fsdp.training {clip_grad_norm = array<f64: 1.000000e+00, 2.000000e+00>}
    fsdp.state @w parameter : tensor<4xf32> {trainable}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}) {
      %0 = aten.call "neg"(%arg0) backward : (tensor<4xf32>) -> tensor<4xf32>
      %1 = aten.call "fsdp_mlir::power_sum"([%0]) backward {p = 2.000000e+00 : f64} : (tensor<4xf32>) -> tensor<f64>
      %2 = aten.call "sqrt"(%1) backward : (tensor<f64>) -> tensor<f64>
      %3 = aten.call "_to_copy"(%2) backward {dtype = f32} : (tensor<f64>) -> tensor<f32>
      %4 = aten.call "add.Scalar"(%3) backward {other = 9.9999999999999995E-7 : f64} : (tensor<f32>) -> tensor<f32>
      %5 = aten.call "reciprocal"(%4) backward : (tensor<f32>) -> tensor<f32>
      %6 = aten.call "mul.Scalar"(%5) backward {other = 1.000000e+00 : f64} : (tensor<f32>) -> tensor<f32>
      %7 = aten.call "clamp"(%6) backward {max = 1.000000e+00 : f64} : (tensor<f32>) -> tensor<f32>
      fsdp.update @sgd @w, %0 [] scale %7 : tensor<f32> : tensor<4xf32>
      return %arg0, %3 : tensor<4xf32>, tensor<f32>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def SkipNonFinite : ModulePass<"fsdp-skip-non-finite"> {
  let summary = "Skips the update of a step that is not finite";
  let description = [{
    Input IR: local types; an op marked `fsdp.cotangent`; a buffer is stored once
    and not read after that. With `non-finite=apply`, or a `scaler`, which
    skips steps itself, nothing changes.

    Output IR: backward starts with 1 + (loss - loss), which is NaN where the
    loss is not finite and else 1. After each unit's gradients comes their largest
    magnitude, and an `fsdp.all_reduce max overflow` of it over the axes of the
    mesh that gradients are cut over. Updates have a `skip` where it is not
    finite, and a buffer is stored with the value that it has. The number of
    skipped steps is a state with a recipe and the program's output
    `skipped_steps`; rules do not count those steps.

    What holds: all ranks skip the same steps, and a skipped step changes no
    state. The loss of any micro-batch counts. In a step of several micro-batches
    the first one keeps the values of the buffers that they store, in states of its own. Where
    nothing is skipped, no bit of the state changes by this pass.

    Why: one infinite loss is enough to lose a run. A number of its own for the
    loss would be one more collective; as the start of backward it is in every
    gradient.

    Input:

    ```mlir
    // fsdp-opt --fsdp-skip-non-finite=non-finite=skip
    module {
      fsdp.training {}
      fsdp.state @calls buffer : tensor<4xf32>
      fsdp.state @w parameter : tensor<4xf32> {trainable}
      func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
        %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
        return %n : tensor<*xf32>
      }
      func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
        fsdp.store %x, @calls : tensor<4xf32>
        %loss = aten.call "sum"(%x) : (tensor<4xf32>) -> tensor<f32>
        %one = aten.call "full"() {size = array<i64>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<f32>
        %g = aten.call "mul.Tensor"(%x, %one) backward : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        fsdp.update @sgd @w, %g [] : tensor<4xf32>
        return %loss : tensor<f32>
      }
    }
    ```

    Output:

    ```mlir
    fsdp.training
    fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64> {init = [#fsdp.init<fill, values = [0.000000e+00]>]}
    fsdp.state @calls buffer : tensor<4xf32>
    fsdp.state @w parameter : tensor<4xf32> {trainable}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f64> {fsdp.output = "skipped_steps"}) {
      %0 = aten.call "sum"(%arg0) : (tensor<4xf32>) -> tensor<f32>
      %1 = aten.call "full"() {dtype = f32, fill_value = 1.000000e+00 : f64, fsdp.cotangent, size = array<i64>} : () -> tensor<f32>
      %2 = aten.call "sub.Tensor"(%0, %0) backward : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %3 = aten.call "add.Tensor"(%1, %2) backward : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %4 = aten.call "mul.Tensor"(%arg0, %3) backward : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %5 = aten.call "fsdp_mlir::power_sum"([%4]) backward {p = 0x7FF0000000000000 : f64} : (tensor<4xf32>) -> tensor<f64>
      %6 = aten.call "isfinite"(%5) backward : (tensor<f64>) -> tensor<i1>
      %7 = aten.call "logical_not"(%6) backward : (tensor<i1>) -> tensor<i1>
      %8 = aten.call "_to_copy"(%7) backward {dtype = f32} : (tensor<i1>) -> tensor<f32>
      fsdp.update @sgd @w, %4 [] skip %8 : tensor<f32> : tensor<4xf32>
      %9 = aten.call "_to_copy"(%8) backward {dtype = i1} : (tensor<f32>) -> tensor<i1>
      %10 = fsdp.load @calls : tensor<4xf32>
      %11 = aten.call "where.self"(%9, %10, %arg0) backward : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fsdp.store %11, @calls : tensor<4xf32>
      %12 = fsdp.load @fsdp.scaler.skipped_steps : tensor<f64>
      %13 = aten.call "add.Tensor"(%12, %8) backward : (tensor<f64>, tensor<f32>) -> tensor<f64>
      fsdp.store %13, @fsdp.scaler.skipped_steps : tensor<f64>
      return %0, %13 : tensor<f32>, tensor<f64>
    }
    ```
  }];
  let options = [NonFiniteOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect",
                           "::mlir::arith::ArithDialect"];
}

#endif // FSDP_GRADIENT_PASSES_TD
