// Tests that the passes that made a module are written into it, one after the
// other, so that the plan can say where it came from.
// RUN: fsdp-opt %s --fsdp-record-pipeline="text=first" --fsdp-record-pipeline="text=second" | FileCheck %s

// CHECK: module attributes {fsdp.pipeline = "first,second"}
module {
}
