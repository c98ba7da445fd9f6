"""Records the operators that run in PyTorch, with what tells the bits of each tensor."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# A tensor of more rows is told as a whole alone, and what takes more numbers counts as computing.
MOST_ROWS, MOST_NUMBERS = 2048, 100_000


def _digest(bits: memoryview) -> bytes:
    return hashlib.blake2b(bits, digest_size=12).digest()


def _is_mask(tensor: torch.Tensor) -> bool:
    """Whether it has zeros, and one number elsewhere, as what a dropout multiplies by."""
    others = tensor[tensor != 0]
    return tensor.numel() > others.numel() > 1 and bool((others == others[0]).all())


@dataclasses.dataclass(frozen=True)
class Value:
    """The bits of a tensor, those of each of its rows, and how it lies in memory. `rounds` says
    that its numbers may have been rounded, as those of counts and masks have not been."""

    digest: bytes
    rows: frozenset[bytes]
    rounds: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Value:
        plain = tensor.detach().resolve_conj().resolve_neg().flatten()
        # Of one element any stride is contiguous, and bytes are seen by a stride of one alone.
        dense = plain.clone(memory_format=torch.contiguous_format)
        bits = memoryview(dense.view(torch.uint8).numpy().tobytes())
        row = tensor.shape[-1] * tensor.element_size() if tensor.ndim > 1 else 0
        several = tensor.element_size() < row and len(bits) <= MOST_ROWS * row
        starts = range(0, len(bits), row) if several else ()
        rows = frozenset(_digest(bits[start : start + row]) for start in starts)
        rounds = (dense.is_floating_point() or dense.is_complex()) and not _is_mask(dense)
        return cls(_digest(bits), rows, rounds, tuple(tensor.shape), tensor.stride())

    def __str__(self) -> str:
        return f"{list(self.shape)} strides {list(self.strides)}"


@dataclasses.dataclass(frozen=True)
class Call:
    """One operator with the tensors that it took, and those that it returned or wrote into.
    `moves` says that it computed nothing: each number that it gives is one that it took."""

    operator: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    moves: bool

    @property
    def name(self) -> str:
        """The operator's, without its overload."""
        return self.operator.rpartition(".")[0]

    def __str__(self) -> str:
        operands, results = (
            ", ".join(map(str, values)) for values in (self.operands, self.results)
        )
        return f"{self.operator}({operands}) -> {results}"


class Calls(TorchDispatchMode):
    """The operators that run within it, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = tree_leaves((args, kwargs))
        tensors = _strided(given)
        operands = tuple(map(Value.of, tensors))
        numbers = [] if func.is_view else [_numbers(tensor) for tensor in tensors]
        results = func(*args, **kwargs)
        given_back = _strided(tree_leaves(results))
        written = [
            tensor
            for tensor, before in zip(tensors, operands)
            if Value.of(tensor) != before and not any(tensor is other for other in given_back)
        ]
        made = [*given_back, *written]
        moves = func.is_view or _is_uninitialised(func)
        moves = moves or _are_among(made, [*numbers, _constants(given)])
        self.calls.append(Call(str(func), operands, tuple(map(Value.of, made)), moves))
        return results


def _strided(leaves: Sequence[Any]) -> list[torch.Tensor]:
    tensors = (leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    return [tensor for tensor in tensors if tensor.layout == torch.strided]


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """All of them side by side; of complex ones both parts."""
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.flatten().double().clone()


def _constants(given: Sequence[Any]) -> torch.Tensor:
    """The numbers that an operator is given as such, and those that it may fill up with."""
    numbers = [leaf for leaf in given if isinstance(leaf, (int, float))]
    return torch.tensor([0.0, 1.0, math.inf, -math.inf, *numbers], dtype=torch.float64)


def _are_among(results: Sequence[torch.Tensor], numbers: Sequence[torch.Tensor]) -> bool:
    """Whether each floating-point number of the results is one of these."""
    if sum(some.numel() for some in numbers) > MOST_NUMBERS:
        return False
    pool = torch.cat(list(numbers))
    found = [_numbers(r) for r in results if r.is_floating_point() or r.is_complex()]
    return all(bool((torch.isin(some, pool) | some.isnan()).all()) for some in found)


def _is_uninitialised(func: Any) -> bool:
    """Whether what it gives is whatever lay in memory."""
    return func.namespace == "aten" and func._opname.startswith(("empty", "new_empty"))
