"""torch.distributed.checkpoint in one process, without ranks."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Iterator

from torch.distributed.checkpoint.api import CheckpointException

from .errors import E, CheckpointError


@contextlib.contextmanager
def alone(path: Path, kind: E = E.IMPORT_SOURCE) -> Iterator[None]:
    """Inside it, where the folder `path` is read or written, an error is the one that happened, and
    that there are no ranks is not said. `kind` is that of an error of PyTorch's own.

    Raises:
        CheckpointError, OSError: for those reasons.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            yield
        except CheckpointException as failure:
            [(error, _)] = failure.failures.values()
            if isinstance(error, (CheckpointError, OSError)):
                raise error from None
            text = " ".join(str(error).split()) or type(error).__name__
            raise CheckpointError(
                kind, f"torch.distributed.checkpoint fails at {path}: {text}"
            ) from failure
