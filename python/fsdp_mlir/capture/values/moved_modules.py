"""Modules that a step moves or casts, as `criterion.to(x.device)` does: mostly to where they are.

Module.to() gives a parameter without values to its module anew, by a way that a capture bars.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import Any, Callable, Iterator
from unittest import mock

import torch
from torch import nn

from ...errors import E, ExportError

_BARRED = "Couldn't swap"


@contextlib.contextmanager
def modules_stay() -> Iterator[None]:
    """Within it, a module that is moved to where it is keeps its tensors.

    Raises:
        ExportError: a module's parameter gets another dtype or device.
    """
    with mock.patch.object(nn.Module, "_apply", _applied(nn.Module._apply)):
        yield


def _applied(original: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    @functools.wraps(original)
    def _apply(module: nn.Module, fn: Callable[..., Any], recurse: bool = True) -> nn.Module:
        if recurse:
            for child in module.children():
                child._apply(fn)
        tensors = itertools.chain(module.parameters(recurse=False), module.buffers(recurse=False))
        with torch.no_grad():
            if all(fn(tensor) is tensor for tensor in tensors):
                return module
        try:
            return original(module, fn, recurse=False)
        except RuntimeError as error:
            if _BARRED not in str(error):
                raise
        raise ExportError(
            E.CHANGED_IN_PLACE,
            f"the step gives the parameters of a {type(module).__name__} another dtype or device; "
            "do so before the step, or cast what the module is given",
        )

    return _apply
