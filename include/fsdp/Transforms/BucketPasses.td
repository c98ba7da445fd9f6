// The passes of fsdp-overlap that decide which collectives there are, sharded to
// scheduled, in the order of the pipeline.

#ifndef FSDP_BUCKET_PASSES_TD
#define FSDP_BUCKET_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def DedupUnshard : ModulePass<"fsdp-dedup-unshard"> {
  let summary = "Leaves one gather of a parameter per region";
  let description = [{
    Input IR: sharded; a gather per reader.

    Output IR: the first gather of each parameter and region, which all its
    readers share; of each `mapped` parameter, the first of all.

    What holds: gathers of different regions stay apart, because what they gather
    takes memory. A mapped gather takes none, and shows the same bytes until the
    update.

    Why: a module used twice, or a weight with two readers, is gathered once.

    It cannot fail: a gather that has no equal stays.

    Input:

    ```mlir
    // fsdp-opt --fsdp-dedup-unshard
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> (tensor<4xf32>, tensor<4xf32>) {
      %w = fsdp.load @w : tensor<2xf32>
      %a = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      %b = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      return %a, %b : tensor<4xf32>, tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = fsdp.load @w : tensor<2xf32>
      %all_gather = shard.all_gather %0 on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      return %all_gather, %all_gather : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def BucketCollectives : ModulePass<"fsdp-bucket-collectives"> {
  let summary = "Makes the collectives of one unit one";
  let description = [{
    Input IR: a gather per parameter and region, a reduce-scatter per gradient.

    Output IR: one `fsdp.all_gather` per unit and region, in bytes, in front of
    its first reader; one `fsdp.reduce_scatter` per unit and element type,
    after the last of its gradients. `fsdp.pack` and `fsdp.unpack` copy
    members in and out.

    What holds: a bucket is rank-major, and its members lie at multiples of 64
    bytes. The division by the unit's divisor that followed each sum becomes the
    `divisor` of the bucket's reduction. Sums of earlier micro-batches, which are
    added between the sum over shards and that over replicas, are added member by
    member, in the bucket that is sent on.

    `bucket-cap-mib` says how much one bucket may hold of a unit, in MiB of whole
    tensors: `none`, all; a number; or `auto`. With `auto` a unit is cut where
    another one is needed in between, and where its collective takes longer
    than the compute beside it, so that only a first or last piece is exposed;
    no piece is so small that the fixed cost is over a tenth on `cluster`.

    Why: a collective has a fixed cost, and one large transfer runs at the
    speed of the wire.

    Input:

    ```mlir
    // fsdp-opt --fsdp-bucket-collectives
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @a parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    fsdp.state @b parameter : tensor<3xf32> {global = tensor<6xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> (tensor<4xf32>, tensor<6xf32>) {
      %a = fsdp.load @a : tensor<2xf32>
      %b = fsdp.load @b : tensor<3xf32>
      %wa = shard.all_gather %a on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      %wb = shard.all_gather %b on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<3xf32> -> tensor<6xf32>
      return %wa, %wb : tensor<4xf32>, tensor<6xf32>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @a parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    fsdp.state @b parameter : tensor<3xf32> {global = tensor<6xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> (tensor<4xf32>, tensor<6xf32>) {
      %0 = fsdp.load @a : tensor<2xf32>
      %1 = fsdp.load @b : tensor<3xf32>
      %2 = fsdp.pack %0, %1 {members = [#fsdp.member<offset = 0, bytes = 8, blocks = 1>, #fsdp.member<offset = 64, bytes = 12, blocks = 1>]} : (tensor<2xf32>, tensor<3xf32>) -> tensor<128xui8>
      %3 = fsdp.all_gather %2 {region = #fsdp<region forward>, unit = ""} : tensor<128xui8> -> tensor<256xui8>
      %4:2 = fsdp.unpack %3 {members = [#fsdp.member<offset = 0, bytes = 8, blocks = 2>, #fsdp.member<offset = 64, bytes = 12, blocks = 2>]} : (tensor<256xui8>) -> (tensor<4xf32>, tensor<6xf32>)
      return %4#0, %4#1 : tensor<4xf32>, tensor<6xf32>
    }
    ```
  }];
  let options = [BucketCapOption, ClusterOption];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def KeepPieces : ModulePass<"fsdp-keep-pieces"> {
  let summary = "Keeps a secondary shard between forward and backward";
  let description = [{
    Input IR: buckets; units with `reshard_ranks`.

    Output IR: an `fsdp.keep` follows each gather of forward that such a
    unit's backward repeats. It keeps a secondary shard, and backward gathers
    that among so many neighbours, one bucket of forward at a time.

    What holds: the bucket has the same bytes as in forward, cast to what kernels
    read. A bucket that backward does not read is not kept. Neither is a mapped
    one, which is there all the time.

    Why: neighbours may share a node, in which links are faster. A rank pays
    with the memory of its secondary shard. ZeRO++ calls this hpZ.

    It cannot fail: a unit without `reshard_ranks`, and a gather that backward
    does not repeat, stay as they are.

    Input:

    ```mlir
    // fsdp-opt --fsdp-keep-pieces
    shard.grid @mesh(shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root {reshard = true, reshard_ranks = 2 : i64}
    fsdp.state @w parameter : tensor<64xui8> {global = tensor<256xui8>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> (tensor<256xui8>, tensor<256xui8>) {
      %w = fsdp.load @w : tensor<64xui8>
      %a = fsdp.all_gather %w {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> tensor<256xui8>
      %b = fsdp.all_gather %w {region = #fsdp<region backward>, unit = ""} : tensor<64xui8> -> tensor<256xui8>
      return %a, %b : tensor<256xui8>, tensor<256xui8>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root {reshard = true, reshard_ranks = 2 : i64}
    fsdp.state @w parameter : tensor<64xui8> {global = tensor<256xui8>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> (tensor<256xui8>, tensor<256xui8>) {
      %0 = fsdp.load @w : tensor<64xui8>
      %1 = fsdp.all_gather %0 {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> tensor<256xui8>
      %2 = fsdp.keep %1 {ranks = 2 : i64} : tensor<256xui8> -> tensor<128xui8>
      %3 = fsdp.all_gather %2 {ranks = 2 : i64, region = #fsdp<region backward>, unit = ""} : tensor<128xui8> -> tensor<256xui8>
      return %1, %3 : tensor<256xui8>, tensor<256xui8>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def SplitMatrixRules : ModulePass<"fsdp-split-matrix-rules"> {
  let summary = "Computes what an update needs of a whole matrix";
  let description = [{
    Input IR: buckets; updates by rules that look at whole matrices. State may be
    of another shape than its matrix: Adafactor's variances of rows and columns.

    Output IR: such an update is by a rule of elements. In front of it stands
    what that rule is `given`. What treats each element alike is computed of a
    rank's rows, the rest of whole matrices. Updates by one rule, in the order
    of the program, make rounds of as many as there are shards. In a round rank
    i owns the i-th matrix: an all-to-all over the shard axis brings it the rows
    that the other ranks hold of what the rest reads, it computes the rest, and a
    second all-to-all brings each rank its rows of all the results. The updates
    of a round stand together. While a rank computes a matrix, the rows of the
    next one arrive and those of the one before leave: a round's exchanges stand
    around the computation of its neighbours. In a round that
    is not full the ranks without a matrix compute the last one too. Of a matrix
    that is alone in its round all ranks gather what the rest reads, compute it
    and keep their rows.

    What holds: the parameter and its states stay split, and only the update
    writes them. What moves has its own type: of Muon the momentum in bfloat16;
    of Adafactor the parameter, its gradient and the variances, in one exchange.
    Each matrix is computed by itself, by the same ops, so that its bits are
    those of one rank that has it whole.

    Why: Muon orthogonalises the momentum of a whole matrix, and what it keeps
    and adds is of elements. The rules of a round are one, so that all ranks
    share a program; transformers have many matrices of one shape, so that few
    rounds are not full, and every rank has as much to compute. Among N ranks a
    rank computes 1/N of the matrices, where gathering them would have it
    compute all. For each matrix that it computes, a rank sends and receives two
    matrices less 2/N of one, and it holds one at a time. To gather the N
    matrices of a round, it would receive N - 1.

    Matrices that fill no round by themselves are dealt out by what they cost on
    `cluster`, those of the most expensive rule first, so that ranks compute
    matrices of several shapes at a time. All rows of such a round have the size
    of the longest one. The rules that share rounds are those with which updates
    take the least time, exchanges included; where that is each by itself, they
    share none. As all ranks run one program, it has the calls of each rule, and
    `fsdp.shards` says which ranks make them. The first shard has the most
    expensive matrix.

    Fails where a matrix is split on another dimension than 0, is on the host,
    or has a rule with a number that follows from the steps before.

    Input:

    ```mlir
    // fsdp-opt --fsdp-split-matrix-rules
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @v parameter : tensor<2x8xf32> {trainable, global = tensor<4x8xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    fsdp.state @w parameter : tensor<2x8xf32> {trainable, global = tensor<4x8xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func private @rule(%p: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {fsdp.rule} {
      %n = aten.call "norm.Scalar"(%g) : (tensor<4x8xf32>) -> tensor<f32>
      %u = aten.call "div.Tensor"(%g, %n) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      %r = aten.call "sub.Tensor"(%p, %u) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      return %r : tensor<4x8xf32>
    }
    func.func @step(%g: tensor<2x8xf32>, %h: tensor<2x8xf32>) {
      fsdp.update @rule @v, %g [] : tensor<2x8xf32>
      fsdp.update @rule @w, %h [] : tensor<2x8xf32>
      return
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @v parameter : tensor<2x8xf32> {global = tensor<4x8xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    fsdp.state @w parameter : tensor<2x8xf32> {global = tensor<4x8xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func private @rule.elements(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>, %arg2: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg2) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step(%arg0: tensor<2x8xf32>, %arg1: tensor<2x8xf32>) {
      %0 = fsdp.pack %arg0, %arg1 {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1>, #fsdp.member<offset = 64, bytes = 64, blocks = 1>]} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x64xui8>
      %1 = fsdp.all_to_all %0 {unit = ""} : tensor<2x64xui8>
      %2 = fsdp.unpack %1 {members = [#fsdp.member<offset = 0, bytes = 128, blocks = 1>]} : (tensor<2x64xui8>) -> tensor<4x8xf32>
      %3 = aten.call "norm.Scalar"(%2) backward : (tensor<4x8xf32>) -> tensor<f32>
      %4 = aten.call "div.Tensor"(%2, %3) backward : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
      %5 = fsdp.pack %4 {members = [#fsdp.member<offset = 0, bytes = 128, blocks = 1>]} : (tensor<4x8xf32>) -> tensor<2x64xui8>
      %6 = fsdp.all_to_all %5 {unit = ""} : tensor<2x64xui8>
      %7:2 = fsdp.unpack %6 {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1>, #fsdp.member<offset = 64, bytes = 64, blocks = 1>]} : (tensor<2x64xui8>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
      fsdp.update @rule.elements @v, %arg0 [] given %7#0 : tensor<2x8xf32> : tensor<2x8xf32>
      fsdp.update @rule.elements @w, %arg1 [] given %7#1 : tensor<2x8xf32> : tensor<2x8xf32>
      return
    }
    ```
  }];
  let options = [ClusterOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

#endif // FSDP_BUCKET_PASSES_TD
