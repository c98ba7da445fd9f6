"""Tensors that are none of the model's, and none of the step's, which a step changes."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.overrides import TorchFunctionMode

from ...errors import E, ExportError

_WITHOUT_VALUES = (FakeTensor, FunctionalTensor)
_SET_DATA = torch.Tensor.data.__set__
# What draws into a tensor. Capture sees nothing of what does so into one that has values.
_DRAW = [
    getattr(torch.Tensor, f"{name}_")
    for name in "bernoulli cauchy exponential geometric log_normal normal random uniform".split()
]


def what_is_changed(shape: Sequence[int]) -> str:
    return (
        f"the step changes in place a tensor, or an array, of shape {list(shape)} that is none of "
        "the model's; make it a buffer of the model (register_buffer), or a criterion that has it a part "
        "of the model (model.criterion = criterion)"
    )


class OthersKeepTheirData(TorchFunctionMode):
    """Within it, a tensor that has values gets none without: with `average.data = new` PyTorch would
    leave it so for good. Nor is drawn into one, as `noise.normal_()` does, while a step is captured.

    Raises:
        ExportError: a step does that.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _SET_DATA and isinstance(args[1], _WITHOUT_VALUES):
            if not isinstance(args[0], _WITHOUT_VALUES):
                raise ExportError(E.CHANGED_IN_PLACE, what_is_changed(args[0].shape))
        if func in _DRAW and not isinstance(args[0], _WITHOUT_VALUES):
            if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FUNCTIONAL) is not None:
                raise ExportError(E.CHANGED_IN_PLACE, what_is_changed(args[0].shape))
        return func(*args, **(kwargs or {}))
