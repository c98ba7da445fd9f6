// Tests that an update is skipped where no rank and no micro-batch has its gradient,
// that this is told of all updates by one collective, and that what counts such steps
// does not count those that are skipped as a whole.
// RUN: fsdp-opt %s --fsdp-shard="mesh=2" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-shard="mesh=1" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 shard-layout=flat" | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 non-finite=skip" | FileCheck %s --check-prefix=FINITE
// RUN: sed 's/fsdp.training {}/fsdp.training {accumulate = 2 : i64}/' %s | fsdp-opt --fsdp-shard="mesh=2" | FileCheck %s --check-prefix=MICRO
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=2x2" | FileCheck %s --check-prefix=COMMANDS

// CHECK-LABEL: func.func @step
// CHECK: fsdp.update @sgd @always, %{{[0-9]+}} [] : tensor
// CHECK: %[[LIST:.*]] = aten.call "stack"([%{{[0-9]+}}, %{{[0-9]+}}])
// CHECK-NEXT: %[[ZERO:.*]] = aten.call "eq.Scalar"(%[[LIST]])
// CHECK-NEXT: %[[HAS:.*]] = aten.call "_to_copy"(%[[ZERO]]) backward {dtype = f32
// CHECK-NEXT: %[[ANY:.*]] = fsdp.all_reduce max skip %[[HAS]]
// CHECK-NEXT: %[[NONE:.*]] = aten.call "eq.Scalar"(%[[ANY]])
// CHECK-NEXT: %[[LACKS:.*]] = aten.call "_to_copy"(%[[NONE]])
// CHECK-NEXT: %[[FIRST:.*]] = aten.call "select.int"(%[[LACKS]]) backward {dim = 0 : i64, index = 0 : i64}
// CHECK-NEXT: %[[OTHER:.*]] = aten.call "select.int"(%[[LACKS]]) backward {dim = 0 : i64, index = 1 : i64}
// CHECK: fsdp.update @sgd.0 @w, %{{[0-9]+}} [] skip %[[FIRST]]
// CHECK: fsdp.update @sgd.1 @v, %{{[0-9]+}} [] skip %[[OTHER]]
// CHECK: %[[MISSED:.*]] = fsdp.load @fsdp.missed.0
// CHECK-NEXT: %[[COUNT:.*]] = aten.call "add.Tensor"(%[[MISSED]], %[[FIRST]])
// CHECK-NEXT: fsdp.store %[[COUNT]], @fsdp.missed.0
// CHECK: fsdp.store %{{.*}}, @fsdp.missed.1

// ONE-NOT: all_reduce
// ONE: fsdp.update @sgd.0 @w, %{{.*}} skip %{{[0-9]+}} :

// FLAT: fsdp.update @sgd{{.*}} {{.*}}/flat.0", %[[G:.*]] [] {{.*}}end
// FLAT: fsdp.update @sgd.0 {{.*}}/flat.0", %[[G]] [] skip %{{.*}}begin
// FLAT: fsdp.update @sgd.1 {{.*}}/flat.0", %[[G]] [] skip %{{.*}}begin

// FINITE: aten.call "isfinite"
// FINITE-NEXT: aten.call "logical_not"
// FINITE-NEXT: %[[OVERFLOW:.*]] = aten.call "_to_copy"(%{{.*}}) backward {dtype = f32} : (tensor<i1>)
// FINITE: fsdp.update @sgd @always, %{{.*}} skip %[[OVERFLOW]]
// FINITE: %[[BOTH:.*]] = aten.call "maximum"(%[[OVERFLOW]], %{{.*}}) backward
// FINITE: fsdp.update @sgd.0 @w, %{{.*}} skip %[[BOTH]]
// FINITE: %[[KEPT:.*]] = aten.call "where.self"(%{{.*}}, %{{.*}}, %{{.*}}) backward : (tensor<i1>, tensor<f64>, tensor<f64>)
// FINITE-NEXT: fsdp.store %[[KEPT]], @fsdp.missed.0

// MICRO-LABEL: func.func @step
// MICRO: %[[SOFAR:.*]] = fsdp.load @fsdp.given.0
// MICRO-NEXT: %[[ANY:.*]] = aten.call "maximum"(%[[SOFAR]], %{{.*}})
// MICRO-NEXT: %[[NOTHING:.*]] = aten.call "mul.Scalar"(%[[ANY]]) backward {other = 0.000000e+00
// MICRO-NEXT: fsdp.store %[[NOTHING]], @fsdp.given.0
// MICRO-LABEL: func.func @accumulate
// MICRO: aten.call "eq.Scalar"(%{{[0-9]+}})
// MICRO: %[[NOW:.*]] = aten.call "maximum"
// MICRO-NEXT: fsdp.store %[[NOW]], @fsdp.given.0
// MICRO-NOT: fsdp.missed

// COMMANDS: fsdp.cmd.collective{{ +}}all_reduce {{.*}}op = #fsdp<reduce_op max>
// COMMANDS: fsdp.cmd.update {{.*}} skip %{{.*}} : tensor<f32>
// Each of these computes what the sequential step does: on which values it leaves an
// update out, too.
// RUN: fsdp-opt %s --fsdp-pipeline="mesh=2 non-finite=skip" -o /dev/null --remarks-filter=fsdp-verify-commands --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=MEANING
// RUN: sed 's/fsdp.training {}/fsdp.training {accumulate = 2 : i64}/' %s | fsdp-opt --fsdp-pipeline="mesh=1 non-finite=skip" -o /dev/null --remarks-filter=fsdp-verify-commands --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=MEANING
// RUN: sed 's/fsdp.training {}/fsdp.training {accumulate = 2 : i64}/' %s | fsdp-opt --fsdp-pipeline="mesh=2x2 shard-layout=flat accumulate-reduce=each" -o /dev/null --remarks-filter=fsdp-verify-commands --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=MEANING
// MEANING: [Passed] meaning {{.*}}Function=step | Remark="computed as by the sequential step", covered=7
// MEANING: [Missed] meaning {{.*}}Function=step {{.*}}"not shown to be the sequential step's: the sequential step has no such thing"
module {
  fsdp.training {}
  fsdp.module "" class "M"
  fsdp.state @fsdp.missed.0 buffer : tensor<f64>
  fsdp.state @fsdp.missed.1 buffer : tensor<f64>
  fsdp.state @always parameter : tensor<4xf32> {trainable}
  fsdp.state @w parameter : tensor<4xf32> {trainable}
  fsdp.state @v parameter : tensor<4xf32> {trainable}
  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %n : tensor<*xf32>
  }
  func.func private @sgd.0(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule, fsdp.missed = @fsdp.missed.0} {
    %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %n : tensor<*xf32>
  }
  func.func private @sgd.1(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule, fsdp.missed = @fsdp.missed.1} {
    %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %n : tensor<*xf32>
  }
  func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}, %first: tensor<i1> {fsdp.input = "first"}, %second: tensor<i1> {fsdp.input = "second"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %0 = fsdp.load @always : tensor<4xf32>
    %1 = fsdp.load @w : tensor<4xf32>
    %2 = fsdp.load @v : tensor<4xf32>
    %3 = aten.call "mul.Tensor"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = aten.call "mul.Tensor"(%3, %2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = aten.call "sum"(%4) : (tensor<4xf32>) -> tensor<f32>
    %one = aten.call "full"() {size = array<i64>, fill_value = 1.0 : f64, dtype = f32, fsdp.cotangent} : () -> tensor<f32>
    %g0 = aten.call "mul.Tensor"(%x, %one) backward : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    %g1 = aten.call "mul.Tensor"(%g0, %0) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g2 = aten.call "mul.Tensor"(%g1, %2) backward : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %none = aten.call "logical_not"(%first) backward : (tensor<i1>) -> tensor<i1>
    %lacks = aten.call "_to_copy"(%none) backward {dtype = f32} : (tensor<i1>) -> tensor<f32>
    %nothing = aten.call "logical_not"(%second) backward : (tensor<i1>) -> tensor<i1>
    %other = aten.call "_to_copy"(%nothing) backward {dtype = f32} : (tensor<i1>) -> tensor<f32>
    fsdp.update @sgd @always, %g0 [] : tensor<4xf32>
    fsdp.update @sgd.0 @w, %g1 [] skip %lacks : tensor<f32> : tensor<4xf32>
    fsdp.update @sgd.1 @v, %g2 [] skip %other : tensor<f32> : tensor<4xf32>
    return %loss : tensor<f32>
  }
}
