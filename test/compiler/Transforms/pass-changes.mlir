// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" -o /dev/null --remarks-filter=changes --remark-format=emitRemark 2>&1 | FileCheck %s
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2" -o /dev/null --remarks-filter=fsdp.* --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=DECISIONS

// What each pass changed, in the order in which they ran: those that decide
// nothing as well, and those that only check.

// CHECK: [Analysis] fsdp-assign-units | Category:changes | {{$}}
// CHECK: [Analysis] fsdp-insert-unshard | {{.*}}added="fsdp.unshard 6, aten.call 1", collective_bytes_after=344, collective_bytes_before=0, ops_after=37, ops_before=30
// CHECK: [Analysis] fsdp-localize | {{.*}}removed="fsdp.unshard 6, fsdp.reduce_grad 2", state_bytes_after=384, state_bytes_before=512
// CHECK: [Analysis] fsdp-schedule-overlap | Category:changes | moved={{[1-9][0-9]*}}, peak_bytes_after={{[0-9]+}}, peak_bytes_before={{[0-9]+}}
// CHECK: [Analysis] fsdp-lower-to-commands | {{.*}}added="fsdp.cmd.value {{.*}}removed="fsdp.load 4,
// CHECK: [Analysis] fsdp-verify-commands | Category:changes | {{$}}

// Decisions are apart.
// DECISIONS-NOT: Category:changes
