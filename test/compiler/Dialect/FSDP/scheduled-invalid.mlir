// Tests that malformed buckets and collectives are refused.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

func.func @step(%a: tensor<3xf32>) {
  // expected-error @below {{has 1 tensors and 0 members}}
  %in = fsdp.pack %a {members = []} : (tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<3xf32>) {
  // expected-error @below {{a member's offset is a multiple of 64, not 4}}
  %in = fsdp.pack %a {members = [#fsdp.member<offset = 4, bytes = 12, blocks = 1>]} : (tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<3xf32>) {
  // expected-error @below {{member 0 has 1 blocks of 16 bytes, but its tensor 12}}
  %in = fsdp.pack %a {members = [#fsdp.member<offset = 0, bytes = 16, blocks = 1>]} : (tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<3xf32>) {
  // expected-error @below {{member 0 ends at byte 76 of a bucket with 64 bytes in 1 pieces}}
  %in = fsdp.pack %a {members = [#fsdp.member<offset = 64, bytes = 12, blocks = 1>]} : (tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<3xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{member 1 begins at 0, before the end of the one before it}}
  %in = fsdp.pack %a, %b {members = [#fsdp.member<offset = 0, bytes = 12, blocks = 1>, #fsdp.member<offset = 0, bytes = 12, blocks = 1>]} : (tensor<3xf32>, tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<3x2xf32, #aten.strides<[1, 3]>>) {
  // expected-error @below {{member 0 is not row-major; clone it first}}
  %in = fsdp.pack %a {members = [#fsdp.member<offset = 0, bytes = 24, blocks = 1>]} : (tensor<3x2xf32, #aten.strides<[1, 3]>>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<64xui8>) {
  // expected-error @below {{gathers 64 elements per rank into 96, which is not a multiple}}
  %out = fsdp.all_gather %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> tensor<96xui8>
  return
}

// -----

func.func @step(%a: tensor<8x8xf32>) {
  // expected-error @below {{gathers a bucket of bytes, tensor<Nxui8>, or one dimension of a flat state's elements}}
  %out = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<8x8xf32> -> !fsdp.future<tensor<128xf32>>
  return
}

// -----

func.func @step(%a: tensor<2x16xf32>) {
  // expected-error @below {{scatters a row to each rank}}
  %out = fsdp.reduce_scatter %a {unit = ""} : tensor<2x16xf32> -> tensor<32xf32>
  return
}

// -----

func.func @step(%a: tensor<30xf32>) {
  // expected-error @below {{scatters a row to each rank}}
  %out = fsdp.reduce_scatter %a {unit = ""} : tensor<30xf32> -> tensor<16xf32>
  return
}

// -----

func.func @step(%a: tensor<128xui8>) {
  // expected-error @below {{exchanges a row of bytes per rank, not 'tensor<128xui8>'}}
  %out = fsdp.all_to_all %a {unit = ""} : tensor<128xui8>
  return
}

// -----

func.func @step(%a: tensor<3x2xf32, #aten.strides<[1, 3]>>) {
  // expected-error @below {{reduces a tensor that is not row-major; clone it first}}
  %out = fsdp.all_reduce sum norm %a : tensor<3x2xf32, #aten.strides<[1, 3]>>
  return
}

// -----

func.func @step(%a: tensor<f64>) {
  // expected-error @below {{divides a maximum; only sums are divided}}
  %out = fsdp.all_reduce max norm %a {divisor = 2.0 : f64} : tensor<f64>
  return
}

// -----

func.func @step(%a: tensor<256xui8>) {
  // expected-error @below {{keeps 'tensor<64xui8>', which is not one of 2 equal parts of 'tensor<256xui8>'}}
  %kept = fsdp.keep %a {ranks = 2 : i64} : tensor<256xui8> -> tensor<64xui8>
  return
}

// -----

func.func @unit(%a: tensor<f64>) {
  // expected-error @below {{has a unit if and only if it is of a gradient}}
  %out = fsdp.all_reduce sum norm %a {unit = "u"} : tensor<f64>
  return
}

// -----

func.func @step(%a: tensor<64xui8>) {
  // expected-error @below {{a future is of a tensor of a static shape and of at most 2^62 bytes, not of 'tensor<?xui8>'}}
  %f = fsdp.all_gather_start %a {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<?xui8>>
  return
}

// -----

func.func @step(%a: tensor<?xui8>) {
  // expected-error @below {{must be tensor of a static shape}}
  %f = fsdp.all_gather_start %a {region = #fsdp<region forward>, unit = ""} : tensor<?xui8> -> !fsdp.future<tensor<64xui8>>
  return
}

// -----

func.func @step(%a: tensor<?xf32>) {
  // expected-error @below {{must be variadic of tensor of a static shape}}
  %w = fsdp.pack %a {members = [#fsdp.member<offset = 0, bytes = 4, blocks = 1>]} : (tensor<?xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<?xf32>) {
  // expected-error @below {{must be tensor of a static shape}}
  %w = fsdp.keep %a {ranks = 2 : i64} : tensor<?xf32> -> tensor<1xf32>
  return
}

// -----

func.func @step(%a: tensor<4611686018427387904xf64>) {
  // expected-error @below {{must be tensor of a static shape and of at most 2^62 bytes}}
  %w = fsdp.keep %a {ranks = 2 : i64} : tensor<4611686018427387904xf64> -> tensor<1xf64>
  return
}

// -----

func.func @step(%a: tensor<2x?xf32>) {
  // expected-error @below {{must be tensor of a static shape}}
  %w = fsdp.reduce_scatter %a {unit = ""} : tensor<2x?xf32> -> tensor<?xf32>
  return
}

// -----

func.func @step(%a: tensor<8xf32>) {
  // expected-error @below {{names the state @w, which the module does not have}}
  %w = fsdp.offload_start %a {unit = "", into = @w} : !fsdp.future<tensor<8xf32>>
  return
}

// -----

func.func @step(%a: tensor<8xf32>) {
  // expected-error @below {{names the state @w, which the module does not have}}
  %w = fsdp.fetch_start %a {unit = "", region = #fsdp<region update>, into = @w} : (tensor<8xf32>) -> !fsdp.future<tensor<8xf32>>
  return
}

// -----

func.func @step(%a: tensor<3xf32>, %b: tensor<3xf32>) {
  // expected-error @below {{member 1 is of ranks that have the one before it too; members of some shards stand in their order}}
  %in = fsdp.pack %a, %b {members = [#fsdp.member<offset = 0, bytes = 12, blocks = 1, shards = <0, 2>>, #fsdp.member<offset = 0, bytes = 12, blocks = 1, shards = <1, 3>>]} : (tensor<3xf32>, tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%a: tensor<3xf32>) {
  // expected-error @below {{some shards are at least one, not those from 1 up to 1}}
  // expected-error @below {{failed to parse FSDP_MemberAttr parameter 'shards'}}
  %in = fsdp.pack %a {members = [#fsdp.member<offset = 0, bytes = 12, blocks = 1, shards = <1, 1>>]} : (tensor<3xf32>) -> tensor<64xui8>
  return
}

// -----

func.func @step(%norm: tensor<f64>) {
  // expected-error @below {{axes of the mesh that are neighbours, in order}}
  %n = fsdp.all_reduce_start max norm %norm {axes = array<i64: 0, 2>} : !fsdp.future<tensor<f64>>
  return
}

// -----

func.func @step(%norm: tensor<f64>) {
  // expected-error @below {{axes of the mesh that are neighbours, in order}}
  %n = fsdp.all_reduce_start max norm %norm {axes = array<i64>} : !fsdp.future<tensor<f64>>
  return
}
