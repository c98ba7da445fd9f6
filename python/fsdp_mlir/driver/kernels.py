"""Kernels by measurement: the driver's way from `kernels=fast` to a table (docs/kernels.md)."""

from __future__ import annotations

import os
from pathlib import Path

from .cache import Cache, digest
from .stages import Runner, torch_version


def needs_table(options: str) -> bool:
    """Whether the pipeline chooses kernels, and has not been told what each takes."""
    words = options.split()
    return "kernels=fast" in words and not any(w.startswith("kernel-table=") for w in words)


def without_kernels(options: str) -> str:
    """The pipeline of the plan whose kernels are measured."""
    return " ".join(word for word in options.split() if word != "kernels=fast")


def tune(runner: Runner, cache: Cache, tool: Path, plan: Path) -> tuple[Path, str]:
    """The table of what each kernel takes for the plan's products on this machine, and what
    fsdp-run said of it. What an earlier run has measured is not measured again."""
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    table = cache.kernel_table([processor(), torch_version(), digest(tool), threads])
    said, _ = runner.run("tune", [tool, plan, "--tune", table])
    return table, said.strip()


def processor() -> list[str]:
    """What tells a kind of processor from others, as the system has it."""
    known = ("vendor_id", "cpu family", "model", "model name", "flags")  # x86
    known += ("CPU implementer", "CPU part")  # ARM
    first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    return [line for line in first.splitlines() if line.partition(":")[0].strip() in known]
