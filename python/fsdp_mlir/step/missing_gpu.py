"""What a script for GPUs asks of PyTorch where there is none."""

from __future__ import annotations

from typing import Optional

_SAID = "Found no NVIDIA driver", "No CUDA GPUs are available", "Torch not compiled with CUDA"


def missing_gpu(error: BaseException) -> Optional[str]:
    """What to say of an error that PyTorch raises for want of a GPU; None: it is another."""
    if not str(error).startswith(_SAID):
        return None
    return (
        "PyTorch finds no GPU, and a step is captured on the CPU, wherever its plan runs; leave out "
        ".cuda() and device='cuda', and compile a plan for GPUs by device=cuda (docs/gpu.md)"
    )
