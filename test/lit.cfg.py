"""How lit runs the tests: tools from the build, FileCheck and `not` from LLVM."""

import os

import lit.formats

config.name = "fsdp-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(config.source_dir, "test")

for tool in ("fsdp-opt", "fsdp-reduce", "fsdp-translate", "fsdp-run"):
    path = os.path.join(config.tools_dir, tool)
    if os.path.exists(path):
        config.available_features.add(tool)
    config.substitutions.append((rf"(?<![\w/.-]){tool}(?![\w-])", path))
for tool in ("FileCheck", "not", "count", "split-file"):
    path = os.path.join(config.llvm_tools_dir, tool)
    config.substitutions.append((rf"(?<![\w/.-]){tool}(?![\w-])", path))
config.substitutions.append(("%python", config.python))

config.environment["FILECHECK_OPTS"] = "-enable-var-scope"
config.environment["PYTHONPATH"] = os.path.join(config.source_dir, "python")
# One thread, so that numbers and times do not depend on the machine.
config.environment["OMP_NUM_THREADS"] = "1"
