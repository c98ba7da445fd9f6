"""Makes capture resolve composite operators as eager PyTorch does.

For some composite operators PyTorch has a second definition, in Python, that is taken while a
graph is captured and never in eager mode. Those of interpolation compute by gathers what eager's
kernels compute in another order: the last bits differ, and so do memory and speed.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch


def _interpolations() -> Iterator[Any]:
    aten = torch.ops.aten
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if name.lstrip("_").startswith("upsample_") and schema.name != name:
            yield getattr(getattr(aten, name), schema.overload_name or "default")


@contextlib.contextmanager
def eager_interpolation() -> Iterator[None]:
    """Within it, interpolation is captured as the operators that eager runs."""
    key = torch._C.DispatchKey
    removed: list[tuple[Any, Any, Any]] = []
    for overload in _interpolations():
        for name in (key.Autograd, key.CompositeImplicitAutograd):
            if name in overload.py_kernels:
                removed.append((overload, name, overload.py_kernels.pop(name)))
        overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for overload, name, kernel in removed:
            overload.py_kernels[name] = kernel
            overload._dispatch_cache.clear()
