"""What this machine has."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import time
from importlib import metadata
from typing import Any


def describe() -> dict[str, Any]:
    """GPU 0 and its driver, empty where there is none; versions and the day."""
    gpu, driver, memory = _query("name,driver_version,memory.total")
    return {
        "gpu": gpu,
        "driver": driver,
        "memory_mib": int(memory or 0),
        "torch": metadata.version("torch").split("+")[0],
        "kernel": platform.release().split("-")[0],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def slug(name: str) -> str:
    """`nvidia-h100-80gb-hbm3`: the name of a GPU's results."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _query(fields: str) -> list[str]:
    empty = [""] * len(fields.split(","))
    if not shutil.which("nvidia-smi"):
        return empty
    words = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "--id=0"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        return empty
    return [field.strip() for field in done.stdout.splitlines()[0].split(",")]
