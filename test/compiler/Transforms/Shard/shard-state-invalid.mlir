// Tests that meshes that do not exist, and states that cannot be split, are
// errors.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-shard-state="mesh=2"
// RUN: echo "module {}" > %t.mlir
// RUN: not fsdp-opt %t.mlir --fsdp-shard-state 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not fsdp-opt %t.mlir --fsdp-shard-state="mesh=2x2x2 mesh-dims=a,b" 2>&1 | FileCheck %s --check-prefix=DIMS
// RUN: not fsdp-opt %t.mlir --fsdp-shard-state="mesh=two" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fsdp-opt %t.mlir --fsdp-shard-state="mesh=2 shard-layout=rows" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not fsdp-opt %t.mlir --fsdp-shard-state="mesh=2x4 mesh-dims=a,a" 2>&1 | FileCheck %s --check-prefix=NAMES
// RUN: echo "fsdp.training {mesh = array<i64: 4>}" | not fsdp-opt --fsdp-shard-state="mesh=2" 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: echo "fsdp.training {mesh = array<i64: 2, 2, 2>}" | not fsdp-opt --fsdp-shard-state="mesh=4x2" 2>&1 | FileCheck %s --check-prefix=PRODUCT
// RUN: echo "fsdp.training {ranks = 2 : i64}" | not fsdp-opt --fsdp-shard-state="mesh=2x2" 2>&1 | FileCheck %s --check-prefix=RANKS

// RANKS: error: mesh=2x2, but the step computes with a number of 2 ranks, for which it was exported; export it again with WORLD_SIZE=4 in the environment [FSDP-E0407]
// OTHER: error: mesh=2, but the model's own mesh is 4; leave the option out, or describe another mesh
// MISSING: error: the mesh is not given; say how many ranks there are, as in --fsdp-pipeline="mesh=2" [FSDP-E0407]
// PRODUCT: error: mesh=4x2, but the model's own mesh is 2x2x2; leave the option out, or describe another mesh
// DIMS: error: mesh-dims=a,b does not name the 3 dimensions of mesh=2x2x2; the last is the one that is sharded over, as in mesh-dims=replicate0,replicate1,shard
// NUMBER: error: mesh=two is not a number of ranks from 1 to 65536, as 8, nor replicas times shards, as 2x4 or 2x2x4
// LAYOUT: error: shard-layout=rows does not exist; there are dim0 and flat
// NAMES: error: mesh-dims=a,a does not name the 2 dimensions of mesh=2x4; the last is the one that is sharded over, as in mesh-dims=replicate,shard

// expected-error @below {{parameter "w" is not row-major}}
fsdp.state @w parameter : tensor<3x2xf32, #aten.strides<[1, 3]>> {unit = ""}

// -----

// expected-error @below {{has no unit; run fsdp-assign-units before fsdp-shard-state [FSDP-E0409]}}
fsdp.state @w parameter : tensor<3x2xf32>

// -----

fsdp.state @w parameter : tensor<3x2xf32> {unit = ""}
// expected-error @below {{a pointwise rule has state of the parameter's shape}}
fsdp.state @"w/m" optimizer : tensor<2xf32> {parameter = @w}

// -----

func.func private @rule(%p: tensor<3x2xf32>, %g: tensor<3x2xf32>, %m: tensor<f32>) -> (tensor<3x2xf32>, tensor<f32>) attributes {fsdp.rule} {
  return %p, %m : tensor<3x2xf32>, tensor<f32>
}
fsdp.state @w parameter : tensor<3x2xf32> {unit = "", trainable, group = 0 : i64}
// expected-error @below {{has no dimension to be cut along; let it be of one element}}
fsdp.state @"w/m" optimizer : tensor<f32> {parameter = @w}
func.func @step(%g: tensor<3x2xf32> {fsdp.input = "g"}) {
  fsdp.update @rule @w, %g [@"w/m"] : tensor<3x2xf32>
  return
}

// -----

func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  // expected-error @below {{the rule @"rule" calls "mm", which is not pointwise}}
  %0 = aten.call "mm"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}
