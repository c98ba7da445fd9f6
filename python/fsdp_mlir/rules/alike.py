"""Parameters that an optimizer treats alike, so that one of them is followed for all: a model has
hundreds of parameters, and few shapes."""

from __future__ import annotations

from typing import Any, Container, Sequence

import torch
from torch.optim import optimizer as hooks


class Followed:
    """The parameters whose updates are followed.

    Attributes:
        groups: their names, by parameter group.
        tensors: these parameters.
        places: of each parameter of the optimizer, which of them it is treated as.

    Args:
        groups: the names of all parameters, by group.
        set_first: the parameters that are set in front of their updates, each in its own way.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        groups: Sequence[Sequence[str]],
        set_first: Container[str] = (),
    ) -> None:
        self.groups: list[list[str]] = [[] for _ in groups]
        self.tensors: list[torch.Tensor] = []
        self.places: list[int] = []
        known: dict[Any, int] = {}
        all_are_apart = not _is_pytorchs(optimizer)
        for number, (group, members) in enumerate(zip(optimizer.param_groups, groups)):
            for tensor, fqn in zip(group["params"], members):
                shape = tensor.shape, tensor.stride(), tensor.dtype
                kind = number, *shape, tensor.requires_grad
                is_apart = all_are_apart or fqn in set_first or optimizer.state.get(tensor)
                place = known.setdefault(id(tensor) if is_apart else kind, len(self.tensors))
                if place == len(self.tensors):
                    self.groups[number].append(fqn)
                    self.tensors.append(tensor)
                self.places.append(place)


def _is_pytorchs(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the step is one of PyTorch's own, which know a parameter by its shape, strides and dtype."""
    kind = type(optimizer)
    is_own = getattr(torch.optim, kind.__name__, None) is kind
    is_hooked = hooks._global_optimizer_pre_hooks or hooks._global_optimizer_post_hooks
    return is_own and kind.step.__module__.startswith("torch.optim.") and not is_hooked
