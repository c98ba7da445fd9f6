"""Copies of the model that a step makes, as `copy.deepcopy(model)` for weights that it moves on."""

from __future__ import annotations

from typing import Any, Collection

import torch
from torch.overrides import TorchFunctionMode


class TensorsCopied(TorchFunctionMode):
    """Within it, `copy.deepcopy` gives a leaf with the tensor's values. PyTorch copies the memory,
    which tensors without values do not have, and would read what has been freed.

    Args:
        states: the identities of the tensors that a step has for parameters and buffers. They are no
            leaves while it is captured, and their copies are leaves all the same, as in eager mode.
    """

    def __init__(self, states: Collection[int]) -> None:
        super().__init__()
        self._states = states

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.Tensor.__deepcopy__:
            return func(*args, **(kwargs or {}))
        tensor, known = args
        if not tensor.is_leaf and id(tensor) not in self._states:
            return func(tensor, known)  # which says why not
        if id(tensor) not in known:
            known[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return known[id(tensor)]
