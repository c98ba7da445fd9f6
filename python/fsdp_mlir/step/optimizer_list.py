"""Several optimizers of one model, each of parameters of its own, as one."""

from __future__ import annotations

from typing import Any, Sequence, Union

import torch

from ..errors import E, ExportError

Optimizers = Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]]


class OptimizerList:
    """Steps them one after the other.

    Attributes:
        parts: the optimizers.
        param_groups: all their groups, in this order; each is its optimizer's own.
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = list(parts)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none)

    def step(self) -> None:
        for part in self.parts:
            part.step()


def parts_of(optimizer: Any) -> list[torch.optim.Optimizer]:
    """The optimizers that a training step's one is made of."""
    return optimizer.parts if isinstance(optimizer, OptimizerList) else [optimizer]


def as_one(optimizers: Any) -> Any:
    """An optimizer itself, or a list of them as one.

    Raises:
        ExportError: it is something else, or two hold the same parameter.
    """
    if isinstance(optimizers, (torch.optim.Optimizer, OptimizerList)):
        return optimizers
    if not isinstance(optimizers, (list, tuple)) or not optimizers:
        plain = isinstance(optimizers, (int, float, str))
        shown = repr(optimizers) if plain else type(optimizers).__name__
        if isinstance(optimizers, type):
            name = optimizers.__name__
            raise ExportError(
                E.OPTIMIZER,
                f"optimizer is the class {name}; make one, as in {name}(model.parameters())",
            )
        raise ExportError(
            E.OPTIMIZER,
            f"optimizer is {shown}; give a torch.optim.Optimizer, or a list of some that have "
            "parameters of their own",
        )
    owners: dict[torch.Tensor, str] = {}
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise ExportError(
                E.OPTIMIZER,
                f"optimizer has a member of class {type(optimizer).__name__}; give a list of "
                "torch.optim.Optimizer",
            )
        for group in optimizer.param_groups:
            for tensor in group["params"]:
                if tensor in owners:
                    raise ExportError(
                        E.OPTIMIZER,
                        f"a parameter of shape {list(tensor.shape)} is in {owners[tensor]} and in "
                        f"{type(optimizer).__name__}; give each to one optimizer",
                    )
                owners[tensor] = type(optimizer).__name__
    return optimizers[0] if len(optimizers) == 1 else OptimizerList(optimizers)
