"""Makes capture resolve composite operators as eager PyTorch does.

For some composite operators PyTorch has a second definition, in Python, that is taken while a
graph is captured and never in eager mode. Those of interpolation compute by gathers what eager's
kernels compute in another order: the last bits differ, and so do memory and speed.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Mapping

import torch


def _interpolations() -> Iterator[Any]:
    aten = torch.ops.aten
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        if name.lstrip("_").startswith("upsample_") and schema.name != name:
            yield getattr(getattr(aten, name), schema.overload_name or "default")


def _fft_r2c(
    mode: Any, func: Any, self: torch.Tensor, dim: Any, normalization: int, onesided: bool
) -> torch.Tensor:
    """The result of a real FFT on the CPU, with the strides of its kernel, which is asked: PyTorch's
    own rule says row-major always."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily():
        real = torch.empty_strided(self.shape, self.stride(), dtype=self.dtype).zero_()
        result = torch.ops.aten._fft_r2c(real, list(dim), normalization, onesided)
    with mode:
        return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)


@contextlib.contextmanager
def eager_strides() -> Iterator[None]:
    """Within it, real FFTs are captured with the strides that the CPU's kernel gives."""
    from torch._subclasses.fake_impls import op_implementations_dict

    overload = torch.ops.aten._fft_r2c.default
    op_implementations_dict[overload] = _fft_r2c
    try:
        yield
    finally:
        del op_implementations_dict[overload]


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


@contextlib.contextmanager
def defined_as(operators: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Within it, each of these operators is captured as the tensor code of a function."""
    keys = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
    before = {overload: dict(overload.py_kernels) for overload in operators}
    for overload, function in operators.items():
        overload.py_kernels.update({key: function for key in keys})
        overload._dispatch_cache.clear()
    try:
        yield
    finally:
        for overload, kernels in before.items():
            overload.py_kernels.clear()
            overload.py_kernels.update(kernels)
            overload._dispatch_cache.clear()
