"""Files of `torch.save`, of which only tensors and plain values are read: nothing in one is run."""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from ..untrusted import require_regular


def load_plain(path: Path) -> Any:
    """What a file holds, on the CPU; tensors are read when they are used, where its form allows.

    Raises:
        ValueError: it is none, or holds other objects; the text says which.
        OSError: it cannot be opened, or is no regular file.
    """
    require_regular(path)
    maps = zipfile.is_zipfile(path)  # PyTorch's form since 1.6
    try:
        # What PyTorch takes a file for that is of another kind is no help.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=maps)
    except OSError:
        raise
    except Exception as error:  # pickle's errors are of many types
        held = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise ValueError(
            f"it holds {held[1]}" if held else "torch.save did not write it, or it was cut"
        ) from error
