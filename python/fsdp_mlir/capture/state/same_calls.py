"""Whether two runs of a step are the same, told by the calls that their Python makes."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Sequence

import torch
from torch.overrides import TorchFunctionMode

from .replay import SINGLE, VALUES, has_members, members_of, noting_code_in_backward, unwrapped

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Calls(TorchFunctionMode):
    """Within it, the calls of one run are noted: each function, what it takes, and what it gives.
    Tensors and symbols are told by the order in which they come.

    Attributes:
        are_whole: whether the calls say all that the run does. They do not where code of a user's runs
            in a backward pass, or where an argument may change by itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_whole = True
        self._made: list[Any] = []
        self._numbers: dict[Any, int] = {}  # of tensors by identity, and of symbols by name
        self._alive: list[torch.Tensor] = []  # whose identities are no others' meanwhile

    def __enter__(self) -> Calls:
        self._patches = contextlib.ExitStack()
        self._patches.enter_context(noting_code_in_backward(self._are_not_whole))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.close()
        self._alive.clear()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._made.append((unwrapped(func), self._told((args, kwargs or {}))))
        result = func(*args, **(kwargs or {}))
        self._made.append(self._told(result))
        if isinstance(result, torch.Tensor):
            with torch._C.DisableTorchFunction():
                self._made.append(result.dtype)
        return result

    def end(self, returned: Any) -> None:
        """Takes what the run returns."""
        self._made.append(self._told(returned))

    def are_those_of(self, other: Calls) -> bool:
        """Whether another run has made the same ones."""
        return self.are_whole and other.are_whole and self._made == other._made

    def _are_not_whole(self) -> None:
        self.are_whole = False

    def _told(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            self._alive.append(value)
            return "tensor", self._number_of(id(value))
        if isinstance(value, _SYMBOLIC):
            return kind, _SYMBOL.sub(lambda name: f"s{self._number_of(name[0])}", str(value))
        if isinstance(value, VALUES):
            return kind, repr(value)
        if isinstance(value, SINGLE):
            return value
        if has_members(value):
            return kind, tuple(map(self._told, members_of(value)))
        self._are_not_whole()
        return kind

    def _number_of(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def are_same(runs: Sequence[Calls]) -> bool:
    """Whether there are several runs, and the last two are the same."""
    return len(runs) > 1 and runs[-1].are_those_of(runs[-2])
