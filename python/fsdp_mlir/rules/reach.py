"""What Python objects hold: tensors that are reached through containers and other optimizers."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import torch


def tensors_in(value: Any, depth: int = 6) -> Iterator[torch.Tensor]:
    """The tensors among a value, the members and keys of containers, and the parameters and state
    of an optimizer. What lies deeper than `depth` is not looked at."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth == 0:
        return
    elif isinstance(value, torch.optim.Optimizer):
        yield from tensors_in([vars(value).get("param_groups"), vars(value).get("state")], depth)
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from tensors_in(pair, depth - 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for member in value:
            yield from tensors_in(member, depth - 1)


def way_out(holder: Any) -> str:
    """What to do where an optimizer reaches parameters by way of `holder` instead of its groups."""
    if isinstance(holder, torch.optim.Optimizer):
        return (
            "a step of one optimizer inside another is not followed; give TrainingStep the "
            f"{type(holder).__name__} itself, or a list of optimizers"
        )
    return "let the step go through self.param_groups"
