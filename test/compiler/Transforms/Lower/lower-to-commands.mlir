// Tests that each scheduled op becomes its commands: packs are copies and zeroed gaps, waits on one stream nothing (of three: lower-to-commands-streams.mlir).
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=1 --fsdp-plan-memory --fsdp-lower-to-commands --fsdp-verify-commands | FileCheck %s
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=1 --fsdp-plan-memory --fsdp-lower-to-commands --remarks-filter=fsdp-lower-to-commands --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=COPY

module {
  fsdp.training {hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-02 : f64>]}
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.unit "" root
  fsdp.state @w parameter : tensor<2x4xf32> {trainable, group = 0 : i64, unit = "", global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>}
  fsdp.state @count buffer : tensor<f32> {persistent}
  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %d = aten.call "mul.Scalar"(%g, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %p1 = aten.call "sub.Tensor"(%p, %d) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %p1 : tensor<*xf32>
  }

  // CHECK-LABEL: func.func @step
  // CHECK-SAME: %[[X:.*]]: tensor<5x4xf32>
  func.func @step(%x: tensor<5x4xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // CHECK-NOT: fsdp.load
    // CHECK: %[[W:.*]] = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 32>}
    %w = fsdp.load @w : tensor<2x4xf32>
    %c = fsdp.load @count : tensor<f32>

    // One rank's piece is 32 bytes and a gap, which the gather sends as well.
    // CHECK: %[[IN:.*]] = fsdp.cmd.value {{.*}} : tensor<64xui8>
    // CHECK-NEXT: fsdp.cmd.copy from %[[W]] : {{.*}} to %[[IN]] : {{.*}} {pieces = [#fsdp.piece<bytes = 32>, #fsdp.piece<source = -1, bytes = 32, destination_offset = 32>]}
    // COPY: [[#@LINE+1]]:{{.*}}remark: [Missed] copy {{.*}}"copied into a bucket, since it is a state, or was received, and stays where it is", bytes=32, line={{.*}}lower-to-commands.mlir:[[#@LINE+1]], members=1, module=
    %in = fsdp.pack %w {members = [#fsdp.member<offset = 0, bytes = 32, blocks = 1>]} : (tensor<2x4xf32>) -> tensor<64xui8>
    // CHECK: fsdp.cmd.collective{{ +}}all_gather %[[IN]] : tensor<64xui8> to %[[ALL:.*]] : tensor<128xui8> {count = 64 : i64, dtype = ui8, region = #fsdp<region forward>, unit = ""}
    %f = fsdp.all_gather_start %in {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
    // CHECK-NOT: fsdp.cmd.wait
    %all = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
    // CHECK: fsdp.cmd.copy from %[[ALL]] : {{.*}} to %[[WHOLE:.*]] : tensor<4x4xf32> {pieces = [#fsdp.piece<bytes = 32, blocks = 2, source_stride = 64, destination_stride = 32>]}
    %whole = fsdp.unpack %all {members = [#fsdp.member<offset = 0, bytes = 32, blocks = 2>]} : (tensor<128xui8>) -> tensor<4x4xf32>

    // Views share the place of what they look into.
    // CHECK: %[[CUT:.*]] = fsdp.cmd.value of %[[WHOLE]]
    // CHECK-NEXT: fsdp.cmd.aten "slice.Tensor"(%[[WHOLE]]) to{{ ?}}(%[[CUT]]) {args = {dim = 0 : i64, end = 3 : i64, start = 0 : i64}, results = array<i32: 0>, slots = array<i32: 1>, view}
    %cut = aten.call "slice.Tensor"(%whole) {dim = 0 : i64, start = 0 : i64, end = 3 : i64} : (tensor<4x4xf32>) -> tensor<3x4xf32>
    %t = aten.call "t"(%cut) : (tensor<3x4xf32>) -> tensor<4x3xf32, #aten.strides<[1, 4]>>
    // CHECK: fsdp.cmd.aten "mm"(%[[X]], %{{.*}}) to{{ ?}}(%[[Y:[0-9]+]]) {args = {}, results = array<i32: 0>, slots = array<i32: 1, 1>}
    %y = aten.call "mm"(%x, %t) : (tensor<5x4xf32>, tensor<4x3xf32, #aten.strides<[1, 4]>>) -> tensor<5x3xf32>
    // Its schema keeps quiet about it, but this is a view too.
    // CHECK: %[[LINE:.*]] = fsdp.cmd.value of %[[Y]]
    // CHECK-NEXT: fsdp.cmd.aten "_unsafe_view"(%[[Y]]) to{{ ?}}(%[[LINE]]) {{.*}}, view}
    %line = aten.call "_unsafe_view"(%y) {size = array<i64: 15>} : (tensor<5x3xf32>) -> tensor<15xf32>
    // CHECK: fsdp.cmd.aten "sum"(%[[LINE]]) to{{ ?}}(%[[LOSS:[0-9]+]])
    %loss = aten.call "sum"(%line) : (tensor<15xf32>) -> tensor<f32>
    %one = aten.call "ones_like"(%y) : (tensor<5x3xf32>) -> tensor<5x3xf32>
    %xt = aten.call "t"(%x) : (tensor<5x4xf32>) -> tensor<4x5xf32, #aten.strides<[1, 4]>>
    %gt = aten.call "mm"(%xt, %one) : (tensor<4x5xf32, #aten.strides<[1, 4]>>, tensor<5x3xf32>) -> tensor<4x3xf32>
    %g = aten.call "t"(%gt) : (tensor<4x3xf32>) -> tensor<3x4xf32, #aten.strides<[1, 3]>>
    // CHECK: fsdp.cmd.aten "constant_pad_nd"({{.*}}) to{{ ?}}(%[[PAD:[0-9]+]])
    %pad = aten.call "constant_pad_nd"(%g) {pad = array<i64: 0, 0, 0, 1>} : (tensor<3x4xf32, #aten.strides<[1, 3]>>) -> tensor<4x4xf32>

    // A row per rank, each with its gap.
    // CHECK: fsdp.cmd.copy from %[[PAD]] : {{.*}} to %[[GIN:.*]] : tensor<2x16xf32> {pieces = [#fsdp.piece<bytes = 32, blocks = 2, source_stride = 32, destination_stride = 64>, #fsdp.piece<source = -1, bytes = 32, blocks = 2, destination_offset = 32, destination_stride = 64>]}
    // COPY: [[#@LINE+1]]:{{.*}}remark: [Missed] copy {{.*}}"copied into a bucket, since each rank's rows lie apart in the bucket", bytes=64, line={{.*}}lower-to-commands.mlir:[[#@LINE+1]], members=1, module=
    %gin = fsdp.pack %pad {members = [#fsdp.member<offset = 0, bytes = 32, blocks = 2>]} : (tensor<4x4xf32>) -> tensor<2x16xf32>
    // CHECK: fsdp.cmd.collective{{ +}}reduce_scatter %[[GIN]] : {{.*}} to %[[GR:.*]] : tensor<16xf32> {count = 16 : i64, {{.*}}dtype = f32, unit = ""}
    %gf = fsdp.reduce_scatter_start %gin {divisor = 2.0 : f64, unit = ""} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
    %gr = fsdp.wait %gf : !fsdp.future<tensor<16xf32>>
    // What is unpacked from one block stays where it is.
    // CHECK-NOT: fsdp.cmd.copy from %[[GR]]
    // CHECK: %[[GL:.*]] = fsdp.cmd.value part of %[[GR]] : tensor<16xf32> {place = #fsdp.place<0, {{[0-9]+}}, 32>} : tensor<2x4xf32>
    %gl = fsdp.unpack %gr {members = [#fsdp.member<offset = 0, bytes = 32, blocks = 1>]} : (tensor<16xf32>) -> tensor<2x4xf32>

    // CHECK: fsdp.cmd.aten "add.Tensor"({{.*}}) to{{ ?}}(%[[NEXT:[0-9]+]])
    // The command reads the old count, so it cannot write the new one there.
    %c1 = aten.call "add.Tensor"(%c, %loss) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    // CHECK: %[[COUNT:.*]] = fsdp.cmd.value state @count
    // CHECK-NEXT: fsdp.cmd.copy from %[[NEXT]] : tensor<f32> to %[[COUNT]] : tensor<f32> {pieces = [#fsdp.piece<bytes = 4>]}
    fsdp.store %c1, @count : tensor<f32>
    // CHECK: fsdp.cmd.update @sgd @w, %[[GL]] [] : tensor<2x4xf32>
    fsdp.update @sgd @w, %gl [] : tensor<2x4xf32>
    // CHECK: return %[[LOSS]]
    return %loss : tensor<f32>
  }
}
