// Tests that units that cannot be found are errors that say what there is.
// RUN: not fsdp-opt %s --fsdp-assign-units="units=class:Foo" 2>&1 | FileCheck %s --check-prefix=CLASS
// RUN: not fsdp-opt %s --fsdp-assign-units="units=zzz" 2>&1 | FileCheck %s --check-prefix=PATH
// RUN: not fsdp-opt %s --fsdp-assign-units="units=class:Liner" 2>&1 | FileCheck %s --check-prefix=NEARCLASS
// RUN: not fsdp-opt %s --fsdp-assign-units="units=fo[.]bar" 2>&1 | FileCheck %s --check-prefix=NEARPATH
// RUN: not fsdp-opt %s --fsdp-assign-units="units=(" 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not fsdp-opt %s --fsdp-assign-units="units=0" 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: sed 's|^// NAMED ||' %s | not fsdp-opt --fsdp-assign-units 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: sed -e 's|^// NAMED fsdp.unit "" root|fsdp.unit "" root {prefetch_forward = ["foo"]}|' -e 's|tensor<4xf32>|& {unit = ""}|' %s | not fsdp-opt --fsdp-assign-units 2>&1 | FileCheck %s --check-prefix=AHEAD
// RUN: echo "module {}" | not fsdp-opt --fsdp-assign-units 2>&1 | FileCheck %s --check-prefix=STEP

// CLASS: error: units=class:Foo: no module with parameters is of this class; there are Net, Linear
// PATH: error: units=zzz matches the path of no module with parameters; the whole path must match
// NEARCLASS: error: units=class:Liner: no module with parameters is of this class; the nearest is Linear; there are Net, Linear
// NEARPATH: error: units=fo[.]bar matches the path of no module with parameters; the nearest is foo.bar; the whole path
// REGEX: error: units=( is not a regular expression: parentheses not balanced
// ZERO: error: units=0: a unit has at least one byte
// UNIT: error: 'fsdp.state' op is in no unit, but the module has units; name one of them
// AHEAD: error: 'fsdp.unit' op is to prefetch "foo", which is no unit
// STEP: error: the module has no program `step`
// NAMED fsdp.unit "" root
fsdp.module "" class "Net"
fsdp.module "foo.bar" class "Linear"
fsdp.state @foo.bar.w parameter : tensor<4xf32>
func.func @step() {
  return
}
