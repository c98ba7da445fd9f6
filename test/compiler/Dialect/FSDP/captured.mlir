// Tests that the ops of the captured phase print as they are read.
// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt --mlir-print-op-generic %s | fsdp-opt | FileCheck %s

// CHECK: fsdp.training {accumulate = 4 : i64, clip_grad_norm = array<f64: 1.000000e+00, 2.000000e+00>, epochs = 3 : i64, source = "gpt.py"}
fsdp.training {source = "gpt.py", seed = 0 : i64, epochs = 3 : i64, accumulate = 4 : i64, clip_grad_norm = array<f64: 1.0, 2.0>}

// CHECK: fsdp.module "" class "GPT"
fsdp.module "" class "GPT"
// CHECK: fsdp.module "blocks" class "Stack" container
fsdp.module "blocks" class "Stack" container
// CHECK: fsdp.module "blocks.0" class "Block" aliases ["tied.0"]
fsdp.module "blocks.0" class "Block" aliases ["tied.0"]

// CHECK: fsdp.state @blocks.0.w parameter : tensor<10x128xf32> {aliases = ["head.w"], group = 0 : i64, trainable}
fsdp.state @"blocks.0.w" parameter : tensor<10x128xf32> {trainable, aliases = ["head.w"], group = 0 : i64}
// CHECK: fsdp.state @"blocks.0.w/exp_avg" optimizer : tensor<10x128xf32> {parameter = @blocks.0.w}
fsdp.state @"blocks.0.w/exp_avg" optimizer : tensor<10x128xf32> {parameter = @"blocks.0.w"}
// CHECK: fsdp.state @bn.running_mean buffer : tensor<7xf32> {persistent}
fsdp.state @"bn.running_mean" buffer : tensor<7xf32> {persistent}
// CHECK: fsdp.state @fsdp.constant.0 constant : tensor<i64>
fsdp.state @fsdp.constant.0 constant : tensor<i64>
// CHECK: fsdp.state @"u/flat.0" parameter : tensor<32xf32> {is_flat, mapped, trainable}
fsdp.state @"u/flat.0" parameter : tensor<32xf32> {is_flat, mapped, trainable}
// CHECK: fsdp.state @u.b parameter : tensor<2xf32> {flat = @"u/flat.0", flat_offset = 16 : i64, trainable}
fsdp.state @"u.b" parameter : tensor<2xf32> {flat = @"u/flat.0", flat_offset = 16 : i64, trainable}

// CHECK-LABEL: func.func private @rule
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>)
    -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
  // CHECK: fsdp.hyperparameter "lr" of 0
  %lr = fsdp.hyperparameter "lr" of 0
  // CHECK: fsdp.step_count
  %step = fsdp.step_count
  // CHECK: %[[X:.*]] = fsdp.recurrence %{{.*}} {
  // CHECK-NEXT: ^bb0(%[[FORMER:[a-z0-9]+]]: f64
  // CHECK: %[[NEXT:.*]] = arith.mulf %[[FORMER]]
  // CHECK: fsdp.yield %[[NEXT]]
  %x = fsdp.recurrence %lr {
  ^bb0(%former: f64):
    %count = fsdp.step_count
    %next = arith.mulf %former, %count : f64
    fsdp.yield %next
  } : f64
  return %p, %m : tensor<*xf32>, tensor<*xf32>
}

// CHECK-LABEL: func.func @step
func.func @step() {
  // CHECK: %[[W:.*]] = fsdp.load @blocks.0.w : tensor<10x128xf32>
  %w = fsdp.load @"blocks.0.w" : tensor<10x128xf32>
  // CHECK: %[[M:.*]] = fsdp.load @bn.running_mean : tensor<7xf32>
  %m = fsdp.load @"bn.running_mean" : tensor<7xf32>
  // CHECK: fsdp.sum_over_ranks %[[M]] : tensor<7xf32>
  %all = fsdp.sum_over_ranks %m : tensor<7xf32>
  // CHECK: fsdp.rank
  %rank = fsdp.rank
  // CHECK: fsdp.store %[[M]], @bn.running_mean : tensor<7xf32>
  fsdp.store %m, @"bn.running_mean" : tensor<7xf32>
  // CHECK: fsdp.update @rule @blocks.0.w, %[[W]] [@"blocks.0.w/exp_avg"] : tensor<10x128xf32>
  fsdp.update @rule @"blocks.0.w", %w [@"blocks.0.w/exp_avg"] : tensor<10x128xf32>
  // CHECK: fsdp.update @rule1 @"u/flat.0", %{{.*}} [] {begin = 16 : i64, end = 32 : i64} : tensor<32xf32>
  %f = fsdp.load @"u/flat.0" : tensor<32xf32>
  fsdp.update @rule1 @"u/flat.0", %f [] {begin = 16 : i64, end = 32 : i64} : tensor<32xf32>
  return
}

func.func private @rule1(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
