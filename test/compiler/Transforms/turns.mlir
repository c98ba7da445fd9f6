// Tests that losses which train in turn are programs whose flat parameters are their own, in one
// line in the plan, and what cannot be with them.
//
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=2 shard-layout=flat" -o %t.mlir
// RUN: FileCheck %s --check-prefix=IR < %t.mlir
// RUN: fsdp-translate --fsdp-to-plan %t.mlir -o %t.plan
// RUN: fsdp-translate --plan-to-text %t.plan | FileCheck %s --check-prefix=PLAN
//
// IR-DAG: fsdp.state @"/flat.0" parameter
// IR-DAG: fsdp.state @"/flat.1" parameter
// IR: func.func @step({{.*}}fsdp.next = @step_b{{.*}}fsdp.turn = "a"
// IR: fsdp.cmd.update{{.*}}/flat.0
// IR-NOT: fsdp.cmd.update
// IR: func.func @step_b({{.*}}fsdp.turn = "b"
// IR: fsdp.cmd.update{{.*}}/flat.1
//
// PLAN: program step: {{.*}}, the turn of a, then step_b
// PLAN: program step_b: {{.*}}, the turn of b
//
// RUN: sed 's/seed = 0 : i64/seed = 0 : i64, accumulate = 2 : i64/' %s | not fsdp-opt --fsdp-pipeline=mesh=1 2>&1 | FileCheck %s --check-prefix=ACCUMULATE
// ACCUMULATE: takes 2 micro-batches, and @step has several turns
//
// RUN: not fsdp-opt %s --fsdp-pipeline="mesh=1 non-finite=skip" 2>&1 | FileCheck %s --check-prefix=SKIP
// SKIP: non-finite=skip skips a whole step, and the step has several turns
//
// RUN: sed 's/fsdp.next = @step_b/fsdp.next = @other/' %s | not fsdp-opt --fsdp-pipeline=mesh=1 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: has as fsdp.next @other, which is no program

module {
  fsdp.training {source = "turns.py", seed = 0 : i64, hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-02 : f64>]}
  fsdp.module "" class "Model"
  fsdp.state @w parameter : tensor<5x3xf32> {trainable, group = 0 : i64}
  fsdp.state @v parameter : tensor<5x3xf32> {trainable, group = 0 : i64}

  func.func private @sgd.0(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %d = aten.call "mul.Scalar"(%g, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %p1 = aten.call "sub.Tensor"(%p, %d) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1 : tensor<*xf32>
  }

  func.func @step(%x: tensor<5x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.turn = "a", fsdp.next = @step_b} {
    %w = fsdp.load @w : tensor<5x3xf32>
    %v = fsdp.load @v : tensor<5x3xf32>
    %wv = aten.call "add.Tensor"(%w, %v) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %y = aten.call "mul.Tensor"(%x, %wv) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %loss = aten.call "sum"(%y) : (tensor<5x3xf32>) -> tensor<f32>
    %one = aten.call "full"() {size = array<i64>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<f32>
    %g = aten.call "mul.Tensor"(%x, %one) backward : (tensor<5x3xf32>, tensor<f32>) -> tensor<5x3xf32>
    fsdp.update @sgd.0 @w, %g [] : tensor<5x3xf32>
    return %loss : tensor<f32>
  }

  func.func @step_b(%x: tensor<5x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.turn = "b"} {
    %w = fsdp.load @w : tensor<5x3xf32>
    %v = fsdp.load @v : tensor<5x3xf32>
    %wv = aten.call "mul.Tensor"(%w, %v) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %loss = aten.call "sum"(%wv) : (tensor<5x3xf32>) -> tensor<f32>
    %one = aten.call "full"() {size = array<i64>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<f32>
    %g = aten.call "mul.Tensor"(%w, %one) backward : (tensor<5x3xf32>, tensor<f32>) -> tensor<5x3xf32>
    fsdp.update @sgd.0 @v, %g [] : tensor<5x3xf32>
    return %loss : tensor<f32>
  }
}
