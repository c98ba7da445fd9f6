// Tests that a number of streams that does not exist is refused.
// RUN: not fsdp-opt %s --fsdp-assign-streams=streams=2 2>&1 | FileCheck %s

// CHECK: error: streams=2 does not exist; there are 3 and 1
func.func @step() {
  return
}
