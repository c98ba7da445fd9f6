"""How long the compiler takes for Llama 3, and how much memory, by layers."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any, Callable

from bench.turn import Failed, environment
from support import chain

STEP_FILE = chain.ROOT / "python" / "examples" / "llama3.py"
RANKS = 64
LAYOUTS = ("dim0", "flat")
# Starts a program and writes its seconds and its peak in KiB. Linux counts the pages of the process
# that starts a program as the program's own, so this one is small.
MEASURE = """
import os, sys, time
begin = time.monotonic()
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(time.monotonic() - begin, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
# Layers of each size up to the published number; two runs each, of which the faster counts.
LAYERS = {"8b": (8, 16, 32), "70b": (40, 80), "405b": (32, 64, 126)}
RUNS = 2


def measure(folder: pathlib.Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row per size, number of layers and layout: wall `seconds` and `peak_gb` (1e9 bytes)
    resident of fsdp-opt with the whole pipeline, reading and writing text included.

    Raises:
        Failed: the compiler ended with an error.
        ChainError: the exporter or the importer did.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for size, counts in LAYERS.items():
        for layers in counts:
            say(f"compile time: Llama 3 {size}, {layers} layers")
            source = _import(folder, size, layers)
            for layout in LAYOUTS:
                runs = [_run(source, layout) for _ in range(RUNS)]
                seconds, peak = min(runs)
                rows.append(
                    {
                        "size": size,
                        "layers": layers,
                        "layout": layout,
                        "seconds": seconds,
                        "peak_gb": peak,
                    }
                )
    return rows


def _import(folder: pathlib.Path, size: str, layers: int) -> pathlib.Path:
    """The captured step, on fake tensors: shapes without memory."""
    archive, source = folder / "llama.pt", folder / "llama.mlir"
    exporter = [sys.executable, "-m", "fsdp_mlir.export", "--no-weights", "-o", archive]
    chain.command(
        [*exporter, STEP_FILE, "--size", size, "--layers", str(layers)], env=environment()
    )
    chain.command([chain.binary("fsdp-translate"), "--import-torchscript", archive, "-o", source])
    return source


def _run(source: pathlib.Path, layout: str) -> tuple[float, float]:
    pipeline = f"--fsdp-pipeline=mesh={RANKS} shard-layout={layout}"
    arguments = [chain.binary("fsdp-opt"), source, pipeline, "-o", source.with_suffix(".out")]
    process = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.DEVNULL,
    )
    if process.returncode != 0:
        raise Failed(f"fsdp-opt ended with {process.returncode} on {source}")
    seconds, kibibytes = map(float, process.stdout.split())
    return seconds, kibibytes * 1024 / 1e9
