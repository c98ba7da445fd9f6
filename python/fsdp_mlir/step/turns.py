"""The turns of a training step: losses that train in turn on one batch, each with an optimizer."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import torch

from ..errors import E, ExportError
from .arguments import require
from .optimizer_list import as_one, parts_of

Loss = Callable[..., torch.Tensor]
Losses = Union[Loss, Mapping[str, Loss]]
Metrics = Callable[..., Mapping[str, torch.Tensor]]
MetricsOfTurns = Union[Metrics, Mapping[str, Metrics]]


@dataclass(frozen=True)
class Turn:
    """A loss, and the parameters that it trains.

    Attributes:
        name: its key in `loss`; "" where the step has one loss, which has no name.
        loss, metrics: what is computed of a batch.
        optimizer: one optimizer, or an OptimizerList.
        held: the identities of the parameters that the optimizer holds.
    """

    name: str
    loss: Loss
    optimizer: Any
    metrics: Optional[Metrics] = None
    held: frozenset[int] = field(default_factory=frozenset)

    def trains(self, tensor: torch.Tensor) -> bool:
        """Whether the turn is to have a gradient of `tensor`, a parameter that is trainable."""
        return not self.name or id(tensor) in self.held

    @contextlib.contextmanager
    def alone(self, model: torch.nn.Module) -> Iterator[None]:
        """Within it, the parameters that other turns train require no gradient."""
        others = [p for p in model.parameters() if p.requires_grad and not self.trains(p)]
        for parameter in others:
            parameter.requires_grad_(False)
        try:
            yield
        finally:
            for parameter in others:
                parameter.requires_grad_(True)


def turns_of(loss: Any, optimizer: Any, metrics: Any) -> list[Turn]:
    """The turns of a step, in the order of `loss`; one without a name where it is a function.

    Raises:
        ExportError: one of them is of the wrong type, they do not name the same turns, or two
            turns train one parameter.
    """
    if not isinstance(loss, Mapping):
        wanted = f"{_LOSS}, or a dict of them by turn"
        require(callable(loss), "loss", wanted, loss)
        if isinstance(metrics, Mapping):
            raise ExportError(
                E.STEP_ARGUMENT,
                "metrics is a dict, and loss one function; give one function metrics",
            )
        if metrics is not None:
            require(callable(metrics), "metrics", _METRICS, metrics)
        return [Turn("", loss, as_one(optimizer), metrics)]
    _check_names(loss)
    for name, function in loss.items():
        require(callable(function), f"loss[{name!r}]", _LOSS, function)
    if not isinstance(optimizer, Mapping) or list(optimizer) != list(loss):
        has = (
            f"the turns {', '.join(map(str, optimizer))}"
            if isinstance(optimizer, Mapping)
            else (f"a {type(optimizer).__name__}")
        )
        raise ExportError(
            E.STEP_ARGUMENT,
            f"loss has the turns {', '.join(loss)}, and optimizer is {has}; give a dict of an "
            "optimizer for each turn, in the same order",
        )
    if metrics is not None and not isinstance(metrics, Mapping):
        raise ExportError(
            E.STEP_ARGUMENT,
            f"loss has the turns {', '.join(loss)}, and metrics is {type(metrics).__name__}; give "
            "a dict that says whose turn each function's metrics are of",
        )
    for name, function in (metrics or {}).items():
        if name not in loss:
            raise ExportError(
                E.STEP_ARGUMENT, f"metrics has {name!r}, and loss the turns {', '.join(loss)}"
            )
        require(callable(function), f"metrics[{name!r}]", _METRICS, function)
    turns = [
        Turn(
            name, loss[name], one := as_one(optimizer[name]), (metrics or {}).get(name), _held(one)
        )
        for name in loss
    ]
    _check_apart(turns)
    return turns


_LOSS = "a function loss(model, **inputs)"
_METRICS = "a function metrics(model, **inputs) that returns scalars by name"


def _check_names(loss: Mapping[Any, Any]) -> None:
    if not loss:
        raise ExportError(
            E.STEP_ARGUMENT, "loss is an empty dict; give a function loss(model, **inputs) by turn"
        )
    for name in loss:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise ExportError(
                E.STEP_ARGUMENT,
                f"loss has the turn {name!r}; names are Python identifiers in ASCII",
            )


def _held(optimizer: Any) -> frozenset[int]:
    return frozenset(id(p) for group in optimizer.param_groups for p in group["params"])


def _check_apart(turns: Sequence[Turn]) -> None:
    owners: dict[int, str] = {}
    for turn in turns:
        for part in parts_of(turn.optimizer):
            for tensor in (p for group in part.param_groups for p in group["params"]):
                if id(tensor) in owners:
                    raise ExportError(
                        E.OPTIMIZER,
                        f"a parameter of shape {list(tensor.shape)} is in the optimizers of the "
                        f"turns {owners[id(tensor)]} and {turn.name}; each turn trains parameters "
                        "of its own. What trains more often than the others, as a critic, is a step "
                        "of its own: docs/own-loop.md",
                    )
        owners |= {tensor: turn.name for tensor in turn.held}
