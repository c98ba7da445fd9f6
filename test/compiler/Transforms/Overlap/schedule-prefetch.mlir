// Tests that the gathers which a unit's own lists name start where its forward or
// its backward begins, in the order of the list, and that the others start as
// the schedule has them.
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=fsdp2" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=fsdp2 prefetch-forward=0 prefetch-backward=0" | FileCheck %s --check-prefix=ALONE
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=overlap" | FileCheck %s --check-prefix=OVERLAP
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="memory-budget-mib=0.0007" | FileCheck %s --check-prefix=BUDGET
// RUN: fsdp-opt %s --fsdp-shard="mesh=2 reshard-after-forward=true" --fsdp-overlap="schedule=fsdp2" -o /dev/null --remarks-filter=fsdp-schedule-overlap --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

fsdp.unit "a" {prefetch_forward = ["c", "b"]}
fsdp.unit "b"
fsdp.unit "c" {prefetch_backward = ["a"]}
fsdp.unit "d" {prefetch_backward = ["c", "b"]}
fsdp.state @a parameter : tensor<4x4xf32> {unit = "a"}
fsdp.state @b parameter : tensor<4x4xf32> {unit = "b"}
fsdp.state @c parameter : tensor<4x4xf32> {unit = "c"}
fsdp.state @d parameter : tensor<4x4xf32> {unit = "d"}

// Behind the wait for its own come those that "a" names. "b" is needed first, and
// "c" is there by then: one channel carries both. "c" has no list for forward, so
// the next one is gathered ahead of it.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = fsdp.all_gather_start {{.*}}unit = "a"
// CHECK: fsdp.wait %[[A]]
// CHECK: %[[C:.*]] = fsdp.all_gather_start {{.*}}unit = "c"
// CHECK: %[[B:.*]] = fsdp.all_gather_start {{.*}}unit = "b"
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[C]]
// CHECK: fsdp.wait %[[B]]
// CHECK: aten.call "mm"
// CHECK: %[[D:.*]] = fsdp.all_gather_start {{.*}}unit = "d"
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[D]]
// CHECK: %[[D:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region backward>, unit = "d"
// CHECK: fsdp.wait %[[D]]
// CHECK: %[[C:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region backward>, unit = "c"
// CHECK: %[[B:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region backward>, unit = "b"
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[C]]
// CHECK: %[[A:.*]] = fsdp.all_gather_start {{.*}}region = #fsdp<region backward>, unit = "a"
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[B]]
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[A]]

// Without depths, what no list names starts at its first reader.
// ALONE: fsdp.all_gather_start {{.*}}unit = "c"
// ALONE: fsdp.all_gather_start {{.*}}unit = "b"
// ALONE: aten.call "mm"
// ALONE: aten.call "mm"
// ALONE: aten.call "mm"
// ALONE: %[[D:.*]] = fsdp.all_gather_start {{.*}}unit = "d"
// ALONE-NEXT: fsdp.wait %[[D]]

// The cost model places what no list names: compute is short here, so "d" starts
// as early as the others.
// OVERLAP: fsdp.all_gather_start {{.*}}unit = "a"
// OVERLAP: fsdp.all_gather_start {{.*}}unit = "c"
// OVERLAP: fsdp.all_gather_start {{.*}}unit = "b"
// OVERLAP: aten.call "mm"

// The budget wins: three whole parameters do not fit.
// BUDGET: aten.call "mm"
// BUDGET: fsdp.all_gather_start {{.*}}unit = "c"
// BUDGET: aten.call "mm"

// REMARK: remark: {{.*}}starts where the unit begins", gathered=c, region=forward, unit=a
// REMARK: remark: {{.*}}starts where the unit begins", gathered=b, region=forward, unit=a
func.func @step(%x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "loss"}) {
  %a = fsdp.load @a : tensor<4x4xf32>
  %b = fsdp.load @b : tensor<4x4xf32>
  %c = fsdp.load @c : tensor<4x4xf32>
  %d = fsdp.load @d : tensor<4x4xf32>
  %fa = aten.call "mm"(%x, %a) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %fb = aten.call "mm"(%fa, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %fc = aten.call "mm"(%fb, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %fd = aten.call "mm"(%fc, %d) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %bd = aten.call "mm"(%fd, %d) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %bc = aten.call "mm"(%bd, %c) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %bb = aten.call "mm"(%bc, %b) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %ba = aten.call "mm"(%bb, %a) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %ba : tensor<4x4xf32>
}
