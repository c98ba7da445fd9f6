"""What Python objects hold: tensors that are reached through containers and other optimizers."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence

import torch

from ..errors import E, ExportError
from .lines import line_of_step


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


def check_reach(kind: type, attributes: Mapping[str, Any], forgotten: Mapping[int, str]) -> None:
    """Raises ExportError where an attribute of an optimizer holds one of the parameters, by the id
    of its tensor, to which a step gave nothing by way of the groups."""
    for key, value in attributes.items():
        for tensor in tensors_in(value):
            if fqn := forgotten.get(id(tensor)):
                raise ExportError(
                    E.OPTIMIZER_STEP,
                    f"{line_of_step(kind, f'.{key}')}the step of {kind.__name__} gives {fqn} no "
                    f"update from its param_groups, and self.{key} holds it: {way_out(value)}",
                )


def check_state_keys(kind: type, state: Mapping[Any, Any]) -> None:
    """Raises ExportError where an optimizer's state has entries that are of no parameter."""
    for key in state:
        if not isinstance(key, torch.Tensor):
            raise ExportError(
                E.OPTIMIZER_STEP,
                f"{line_of_step(kind, f'[{chr(34)}{key}{chr(34)}]')}the step of {kind.__name__} keeps "
                f"{key!r} in self.state, which has the state of each parameter; keep a number that "
                f'follows from the steps in the parameter groups, as group["{key}"]',
            )


def check_kept_tensors(
    made: Callable[[torch.Tensor], bool],
    params: Sequence[torch.Tensor],
    own: set[str],
    attributes: Mapping[str, Any],
    fail: Callable[[str], NoReturn],
) -> None:
    """Calls `fail` where a step keeps a tensor that it has `made` elsewhere than in the state: it
    would be lost behind the step. Parameters had the attributes `own` before it."""
    for key, value in attributes.items():
        if key in ("state", "param_groups") or not any(map(made, tensors_in(value))):
            continue
        if isinstance(value, torch.optim.Optimizer):
            fail(f"steps self.{key}: {way_out(value)}")
        fail(f"keeps tensors in self.{key}; keep them in self.state, per parameter")
    for param in params:
        for key in vars(param).keys() - own:
            fail(f"keeps {key} on the parameters; keep it in self.state, per parameter")
