"""Which values a step computes from its buffers alone."""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .nodes import is_random


class OfBuffers(TorchDispatchMode):
    """Follows, within it, values that depend on no parameter and no batch.

    Attributes:
        asked: the tensor whose unknown number was read, by the identity of the exception that says so.

    Args:
        buffers: the step's buffers by name.
    """

    def __init__(self, buffers: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._buffers = {id(tensor) for tensor in buffers.values()}
        self._names = {id(tensor): frozenset({name}) for name, tensor in buffers.items()}
        self.asked: dict[int, torch.Tensor] = {}
        self._alive: list[Any] = []  # so that no other tensor gets the identity of one of these

    def names(self, tensor: torch.Tensor) -> frozenset[str]:
        """The buffers that a value is computed from; none where it depends on anything else."""
        return self._names.get(id(tensor), frozenset())

    def is_buffer(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._buffers

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            result = func(*args, **(kwargs or {}))
        except DataDependentOutputException as error:
            if func is torch.ops.aten._local_scalar_dense.default:
                self.asked[id(error)] = args[0]
            raise
        operands = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        unknown = [a for a in operands if not isinstance(a, FakeTensor) or a.constant is None]
        names = [self.names(operand) for operand in unknown]
        of_all = frozenset().union(*names) if all(names) else frozenset()
        if is_random(func):
            of_all = frozenset()
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self._alive.append(value)
                self._names[id(value)] = of_all
        return result
