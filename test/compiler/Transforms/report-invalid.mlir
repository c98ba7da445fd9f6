// Tests that a format that does not exist and a file that cannot be written are
// errors.
// RUN: not fsdp-opt %s --fsdp-report="format=xml" 2>&1 | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-report="output=%t.missing/report" 2>&1 | FileCheck %s --check-prefix=FILE

// CHECK: error: format=xml does not exist; there are pretty, csv and json
// FILE: error: the report cannot be written
module {}
