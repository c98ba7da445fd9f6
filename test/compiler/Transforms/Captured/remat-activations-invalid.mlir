// Tests that an option that does not exist names those that do.
// RUN: not fsdp-opt %s --fsdp-remat-activations="remat=some" 2>&1 | FileCheck %s

// CHECK: error: remat=some does not exist; there are none, selective, full and auto
module {
}
