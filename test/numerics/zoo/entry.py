"""What a model of the zoo is: a module, its batches and its loss."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

Tensor = torch.Tensor
Tensors = dict[str, Tensor]


@dataclasses.dataclass
class Entry:
    """`batch(n)` draws n samples by input name; `loss` is a step file's."""

    model: nn.Module
    batch: Callable[[int], Tensors]
    loss: Callable[..., Tensor]


def own_loss(model: nn.Module, **inputs: Tensor) -> Tensor:
    """Of models that compute their loss themselves, from labels among the inputs."""
    return model(**inputs).loss


def of_logits(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Classes along dimension 1."""
    return F.cross_entropy(model(x), y)


def of_tokens(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Classes along the last dimension."""
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def of_values(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(model(x), y)


def numbers(*shape: int) -> Callable[[int], Tensor]:
    """Draws n samples of that shape."""
    return lambda n: torch.randn(n, *shape)


def classes(count: int, *shape: int, first: int = 0) -> Callable[[int], Tensor]:
    """Draws n samples of numbers from `first` to below `count`."""
    return lambda n: torch.randint(first, count, (n, *shape))


def together(**draws: Callable[[int], Any]) -> Callable[[int], Tensors]:
    """A batch of one draw for each name."""
    return lambda n: {name: draw(n) for name, draw in draws.items()}


def rows(table: str) -> dict[str, dict[str, Any]]:
    """The rows of a table: a name, then `key=value` pairs without spaces in them. A dot in a key
    reaches into a part: `text_config.hidden_size=16`."""
    import ast

    found: dict[str, dict[str, Any]] = {}
    for line in table.splitlines():
        name, *pairs = line.partition("#")[0].split() or [""]
        if name:
            fields = (pair.partition("=") for pair in pairs)
            found[name] = {key: ast.literal_eval(value) for key, _, value in fields}
    return found
