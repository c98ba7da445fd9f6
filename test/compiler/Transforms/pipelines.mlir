// Tests that the pipelines print as text that parses back to the same passes,
// that the three in a row are the whole, that the module records its pipeline,
// and that one rank communicates nothing.
// RUN: fsdp-opt %S/Inputs/mlp.mlir --mlir-print-debuginfo=false --fsdp-pipeline="mesh=2 units=class:Linear" --dump-pass-pipeline -o %t.a.mlir 2>%t.dump
// RUN: %python -c "t = open('%t.dump').read(); print(' '.join(t[t.index('builtin.module'):].split()))" > %t.text
// RUN: %python -c "import subprocess, sys; sys.exit(subprocess.run(['fsdp-opt', '%S/Inputs/mlp.mlir', '--mlir-print-debuginfo=false', '--pass-pipeline=' + open('%t.text').read(), '--dump-pass-pipeline', '-o', '%t.b.mlir'], executable=sys.argv[1], stderr=open('%t.dump2', 'w')).returncode)" fsdp-opt
// RUN: diff %t.a.mlir %t.b.mlir
// RUN: diff %t.dump %t.dump2
// RUN: FileCheck %s --input-file=%t.a.mlir
// RUN: fsdp-opt %S/Inputs/mlp.mlir --mlir-print-debuginfo=false --fsdp-shard="mesh=2 units=class:Linear" --fsdp-overlap --fsdp-lower -o %t.c.mlir
// RUN: FileCheck %s --check-prefix=THREE --input-file=%t.c.mlir
// RUN: sed 1d %t.a.mlir > %t.a.rest
// RUN: sed 1d %t.c.mlir > %t.c.rest
// RUN: diff %t.a.rest %t.c.rest
// RUN: fsdp-opt %S/Inputs/mlp.mlir --mlir-print-debuginfo=false --fsdp-pipeline="mesh=1" | FileCheck %s --check-prefix=ONE

// CHECK: fsdp.pipeline = "fsdp-pipeline{accumulate-reduce=last algorithm=best attention=flash,efficient bucket-cap-mib=auto cluster=auto device=cpu gather=auto kernels=exact mesh=2 mesh-dims=shard non-finite=apply offload=none pin-memory=true prefetch-backward=auto prefetch-forward=auto remat=none reshard-after-forward=auto schedule=overlap shard-layout=dim0 streams=3 units=class:Linear}"
// THREE: fsdp.pipeline = "fsdp-shard{accumulate-reduce=last attention=flash,efficient bucket-cap-mib=auto cluster=auto device=cpu gather=auto kernels=exact mesh=2 mesh-dims=shard non-finite=apply offload=none pin-memory=true remat=none reshard-after-forward=auto schedule=overlap shard-layout=dim0 units=class:Linear},fsdp-overlap{bucket-cap-mib=auto cluster=auto prefetch-backward=auto prefetch-forward=auto schedule=overlap},fsdp-lower{algorithm=best streams=3}"

// ONE-LABEL: func.func @step
// ONE-NOT: {{collective|slice.Tensor|constant_pad_nd|div.Scalar|clone}}
