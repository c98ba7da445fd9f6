// A step of commands on four ranks. Cases of a test stand in it: see fill.py.
MODULE
module attributes {fsdp.arenas = array<i64: 20480, 32768, 512> ATTRIBUTES} {
  shard.grid @mesh(shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, is_flat, mapped, global = tensor<4096xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @w.all parameter : tensor<4096xf32> {trainable, flat = @w, flat_offset = 0 : i64, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, is_flat, mapped, global = tensor<4096xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, fsdp.place = #fsdp.place<0, 4096, 4096>}
  fsdp.state @v.all parameter : tensor<4096xf32> {trainable, flat = @v, flat_offset = 0 : i64, fsdp.place = #fsdp.place<0, 4096, 4096>}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 8192, 4>}
  fsdp.state @h parameter : tensor<16xf32> {trainable, fsdp.place = #fsdp.place<2, 0, 64>}
  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %0 = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %0 : tensor<*xf32>
  }
TOP
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 8256, 64>},
                  %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8320, 4096>}) -> (tensor<f32> {fsdp.output = "loss"})
      attributes {fsdp.live_bytes = 12416 : i64, fsdp.host_live_bytes = 64 : i64} {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %v = fsdp.cmd.value state @v {place = #fsdp.place<0, 4096, 4096>} : tensor<1024xf32>
    %n = fsdp.cmd.value state @n {place = #fsdp.place<0, 8192, 4>} : tensor<f32>
    %h = fsdp.cmd.value state @h {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    %loss = fsdp.cmd.value {place = #fsdp.place<0, 12416, 4>} : tensor<f32>
    fsdp.cmd.aten "sum"(%x) to (%loss) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<f32>
BODY
    return %loss : tensor<f32>
  }
}
