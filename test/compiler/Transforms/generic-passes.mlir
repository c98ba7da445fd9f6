// Tests that MLIR's own passes between ours take nothing that a run needs, or
// that what they took is missed at once.

// States are kept though nothing names them: the members of a flat one.
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-shard="mesh=2 shard-layout=flat" --symbol-privatize="exclude=step,eval" --symbol-dce --fsdp-overlap --fsdp-lower | FileCheck %s --check-prefix=MEMBERS
// MEMBERS-DAG: fsdp.state @blocks.0.w{{.*}}flat =
// MEMBERS-DAG: fsdp.state @blocks.1.w{{.*}}flat =
// MEMBERS-DAG: fsdp.state @calls

// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-shard="mesh=2" --symbol-privatize --symbol-dce 2>&1 | FileCheck %s --check-prefix=PRIVATE
// PRIVATE: error: 'func.func' op is private and has fsdp.input, as programs have; a program is public

// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-shard="mesh=2" --remove-dead-values 2>&1 | FileCheck %s --check-prefix=GRID
// GRID: error: 'fsdp.state' op is split over @mesh, which is not the module's first grid
