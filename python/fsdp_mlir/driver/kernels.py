"""Kernels by measurement: where a machine's table is kept (docs/kernels.md)."""

from __future__ import annotations

import os
from pathlib import Path

from .cache import Cache, digest
from .stages import torch_version


def table_in(cache: Cache, tool: Path) -> Path:
    """The table of what each kernel takes on this machine. `fsdp-run --tune` adds the products of
    a plan to it; what an earlier run has measured is not measured again."""
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    return cache.kernel_table([processor(), torch_version(), digest(tool), threads])


def processor() -> list[str]:
    """The lines of /proc/cpuinfo that tell kinds of processors apart."""
    known = ("vendor_id", "cpu family", "model", "model name", "flags")  # x86
    known += ("CPU implementer", "CPU part")  # ARM
    first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    return [line for line in first.splitlines() if line.partition(":")[0].strip() in known]
