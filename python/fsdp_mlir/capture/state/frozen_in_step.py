"""Parameters that a step itself freezes, as a GAN's code does with the half that it does not train.

`requires_grad_(False)`, or `requires_grad = False`, says of what reads the parameter from then on that
no gradient goes through it. It is captured so: what reads the parameter reads it detached.
"""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ...errors import E, ExportError

_GET, _SET = torch.Tensor.requires_grad.__get__, torch.Tensor.requires_grad.__set__


class FrozenInStep(TorchFunctionMode):
    """Within it, parameters may be frozen and released.

    Args:
        parameters: names of parameters by the identity of the tensors that the step has for them.
        trainable: names of those that are trained, in this turn or in another one.
        frozen: names of those that are frozen; what it is at the end is the next step's begin.
    """

    def __init__(
        self, parameters: Mapping[int, str], trainable: frozenset[str], frozen: set[str]
    ) -> None:
        super().__init__()
        self._parameters, self._trainable, self._frozen = parameters, trainable, frozen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = self._parameters.get(id(args[0])) if args else None
        if name is not None:
            if func is torch.Tensor.requires_grad_:
                self._set(name, *args[1:], **kwargs)
                return args[0]
            if func == _SET:
                return self._set(name, *args[1:])
            if func == _GET and name in self._frozen:
                return False
        if self._frozen:
            args, kwargs = tree_map(self._seen, (args, kwargs))
        return func(*args, **kwargs)

    def _seen(self, value: Any) -> Any:
        """What the step reads in the place of a parameter."""
        if isinstance(value, torch.Tensor) and self._parameters.get(id(value)) in self._frozen:
            return value.detach()
        return value

    def _set(self, name: str, requires_grad: bool = True) -> None:
        if not requires_grad:
            self._frozen.add(name)
            return
        self._frozen.discard(name)
        if name not in self._trainable:
            raise ExportError(
                E.PYTHON_STATE,
                f"the step makes the frozen parameter {name} trainable; let it require gradients "
                "before the step is made, and give it to the optimizer",
            )
