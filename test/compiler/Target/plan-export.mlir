// Tests that a module in the commands phase becomes a plan whose text says what it said, arguments by schema.
// RUN: fsdp-opt %s --fsdp-lower=streams=1 --mlir-print-debuginfo -o %t.mlir
// RUN: fsdp-translate --fsdp-to-plan %t.mlir -o %t.plan
// RUN: fsdp-translate --plan-to-text %t.plan | FileCheck %s
// RUN: not fsdp-translate --plan-to-text %t.plan 2>&1 >/dev/full | FileCheck %s --check-prefix=FULL
// FULL: error: cannot write 'stdout': No space left on device;

// CHECK: plan {{[0-9a-f]+}}
// CHECK-NEXT: source net.py, PyTorch 2.11.0, seed 7, 3 epochs
// CHECK: mesh shard=2
// CHECK-NEXT: arena device {{[0-9]+}} B
// CHECK-NEXT: arena window 0 B
// CHECK-NEXT: arena host 0 B
// CHECK-NEXT: hyperparameters lr of group 0 0.1, momentum of group 0 0.9, in a table of 2 steps
// CHECK-NEXT: parameter w: float32 [3, 4], Shard(0) 2,1, local [2, 4], at device 0+32, unit ''
// CHECK-NEXT: optimizer w/momentum: float32 [3, 4], Shard(0) 2,1, local [2, 4], at device 64+32
// CHECK-NEXT: buffer count: float32 [], Replicate, local [], at device 128+4
module {
  fsdp.training {source = "net.py", torch_version = "2.11.0", seed = 7 : i64, epochs = 3 : i64, hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-01 : f64>, #fsdp.hyperparameter<"momentum" of 0 = 9.0e-01 : f64>], schedule = dense<[[0.1, 0.9], [0.05, 0.8]]> : tensor<2x2xf64>}
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.unit "" root
  fsdp.state @w parameter : tensor<2x4xf32> {trainable, group = 0 : i64, unit = "", global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>}
  fsdp.state @"w/momentum" optimizer : tensor<2x4xf32> {parameter = @w, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>}
  fsdp.state @count buffer : tensor<f32> {persistent}

  // CHECK: rule sgd of 3 operands
  // CHECK-NEXT: s0 = lr of group 0
  // CHECK-NEXT: s1 = step
  // CHECK-NEXT: s2 = 1
  // CHECK-NEXT: s3 = momentum of group 0
  // CHECK-NEXT: s4 = 0
  // CHECK-NEXT: s5 = s1 == s2 ? s4 : s3
  // CHECK-NEXT: s6 = -s0
  // CHECK-NEXT: s7 = sqrt(s0)
  // CHECK-NEXT: s8 = float32(s7)
  // CHECK-NEXT: s9 = s0 < s8 ? s4 : s3
  // CHECK-NEXT: s10 = s12 before, s8 at first
  // CHECK-NEXT: s11 = momentum of group 0
  // CHECK-NEXT: s12 = s10 * s11
  // CHECK-NEXT: %3 = aten::mul.Scalar(%2, s5)
  // CHECK-NEXT: %4 = aten::add.Tensor(%3, %1)
  // CHECK-NEXT: %5 = aten::mul.Scalar(%4, s6)
  // CHECK-NEXT: %6 = aten::add.Tensor(%0, %5)
  // CHECK-NEXT: results %6, %4
  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %step = fsdp.step_count
    %first = arith.constant 1.0 : f64
    %momentum = fsdp.hyperparameter "momentum" of 0
    %none = arith.constant 0.0 : f64
    %is = arith.cmpf oeq, %step, %first : f64
    %f = arith.select %is, %none, %momentum : f64
    %n = arith.negf %lr : f64
    %root = math.sqrt %lr : f64
    %narrow = arith.truncf %root : f64 to f32
    %rounded = arith.extf %narrow : f32 to f64
    %less = arith.cmpf olt, %lr, %rounded : f64
    %least = arith.select %less, %none, %momentum : f64
    %product = fsdp.recurrence %rounded {
    ^bb0(%former: f64):
      %own = fsdp.hyperparameter "momentum" of 0
      %next = arith.mulf %former, %own : f64
      fsdp.yield %next
    } : f64
    %a = aten.call "mul.Scalar"(%m, %f) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %m1 = aten.call "add.Tensor"(%a, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %d = aten.call "mul.Scalar"(%m1, %n) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %p1 = aten.call "add.Tensor"(%p, %d) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1, %m1 : tensor<*xf32>, tensor<*xf32>
  }

  // CHECK: program step:
  // CHECK-NEXT: input x = %0
  // CHECK-NEXT: input r = %1, the same every step
  // CHECK-NEXT: output loss = %[[LOSS:[0-9]+]]
  // CHECK-NEXT: output most =
  func.func @step(%x: tensor<5x4xf32> {fsdp.input = "x"}, %r: tensor<3x4xi64> {fsdp.input = "r", fsdp.repeat}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f64> {fsdp.output = "most"}) {
    // CHECK: %2: float32 [2, 4], state w
    %w = fsdp.load @w : tensor<2x4xf32>
    // CHECK: 0| copy %[[IN:[0-9]+]][0] = %2[0], 1 x 32 B
    // CHECK: 0| %[[ALL:[0-9]+]] = all_gather %[[IN]] over shard, 32 uint8, unit '', forward
    %in = fsdp.pack %w {members = [#fsdp.member<offset = 0, bytes = 32, blocks = 1>]} : (tensor<2x4xf32>) -> tensor<32xui8>
    %f = fsdp.all_gather_start %in {unit = "", region = #fsdp<region forward>} : tensor<32xui8> -> !fsdp.future<tensor<64xui8>>
    %all = fsdp.wait %f : !fsdp.future<tensor<64xui8>>
    %whole = fsdp.unpack %all {members = [#fsdp.member<offset = 0, bytes = 32, blocks = 2>]} : (tensor<64xui8>) -> tensor<4x4xf32>
    // CHECK: 0| %[[CUT:[0-9]+]] = view aten::slice.Tensor(%{{[0-9]+}}, 0, 0, 3)  // blocks.0.fc
    %cut = aten.call "slice.Tensor"(%whole) {dim = 0 : i64, start = 0 : i64, end = 3 : i64} : (tensor<4x4xf32>) -> tensor<3x4xf32> loc("blocks.0.fc"("net.py":3:1))
    // CHECK: aten::gather(%[[CUT]], 0, %1)
    %g = aten.call "gather"(%cut, %r) {dim = 0 : i64} : (tensor<3x4xf32>, tensor<3x4xi64>) -> tensor<3x4xf32>
    // CHECK: aten::cat([%[[CUT]], %{{[0-9]+}}])
    %c = aten.call "cat"([%cut, %g]) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
    // CHECK: %[[LOSS]] = aten::sum(%{{[0-9]+}}) measured 2.5 us
    %loss = aten.call "sum"(%c) measured(2.5e-6) : (tensor<6x4xf32>) -> tensor<f32>
    // CHECK: aten::full([2, 4], 1, float32)
    %one = aten.call "full"() {size = array<i64: 2, 4>, fill_value = 1.0, dtype = f32} : () -> tensor<2x4xf32>
    // CHECK: %[[LARGEST:[0-9]+]] = fsdp_mlir::power_sum([%{{[0-9]+}}], inf)
    %largest = aten.call "fsdp_mlir::power_sum"([%one]) {p = 0x7FF0000000000000 : f64} : (tensor<2x4xf32>) -> tensor<f64>
    // CHECK: 0| %{{[0-9]+}} = all_reduce max %[[LARGEST]] over shard, 1 float64
    %m = fsdp.all_reduce_start max norm %largest : !fsdp.future<tensor<f64>>
    %most = fsdp.wait %m : !fsdp.future<tensor<f64>>
    // CHECK: update w by sgd(%{{[0-9]+}})
    fsdp.update @sgd @w, %one [@"w/momentum"] : tensor<2x4xf32>
    return %loss, %most : tensor<f32>, tensor<f64>
  }
  // CHECK: device arena in step
}
