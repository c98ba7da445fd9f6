"""What a step computes, as one number for each of its tensors: equal where the same operators give
them from the same values. What a step computes and uses for nothing is not in its outcome."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from ..step.places import is_users, user_location
from .value_checks import in_place_of
from .watched_numbers import Watch

# Elements of a tensor whose values count; of a larger one the shape does.
_LARGEST = 1 << 16


class _Content(NamedTuple):
    """What memory holds: a digest of how it was computed, and the watched numbers in it."""

    digest: int
    numbers: frozenset[str]


class Outcome(TorchDispatchMode):
    """Within it, the operators of a step on tensors without values are followed.

    Attributes:
        lines: by digest, the user's line of each operator that ran, in their order.
        held: digests of all that memory has held.
        codes: the user's code that called the operators.
        namespaces: the libraries that the operators are of.

    Args:
        states: the step's parameters, buffers and inputs, by name.
        watch: what is seen of watched numbers.
        number: who reads a number from a tensor gets this one.
    """

    def __init__(self, states: Mapping[str, torch.Tensor], watch: Watch, number: float) -> None:
        super().__init__()
        self.lines: dict[int, str] = {}
        self.held: set[int] = set()
        self.codes: set[CodeType] = set()
        self.namespaces: set[str] = set()
        self._watch = watch
        self._number = number
        self._contents: dict[int, _Content] = {}
        self._alive: list[Any] = []  # memory, else another one may be at its address
        self._draws = 0
        for name, tensor in states.items():
            self._put(tensor, _Content(hash(name), frozenset()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.namespaces.add(func.namespace)
        if func is torch.ops.aten._local_scalar_dense.default:
            return in_place_of(args[0], self._number)
        result = func(*args, **kwargs)
        self._draws += torch.Tag.nondeterministic_seeded in func.tags
        numbers = self._watch.within.union(*(self.numbers((t,)) for t in _tensors((args, kwargs))))
        draw = self._draws if torch.Tag.nondeterministic_seeded in func.tags else 0
        digest = hash((str(func), draw, self._describe(args), self._describe(kwargs)))
        if digest not in self.lines:
            self.lines[digest] = self._users_line()
        for place, tensor in enumerate(_written(func, args, kwargs)):
            self._put(tensor, _Content(hash((digest, "written", place)), numbers))
        for place, tensor in enumerate(_tensors(result)):
            if _memory(tensor) not in self._contents:
                self._put(tensor, _Content(hash((digest, place)), numbers))
        return result

    def digests(self, tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
        """How each of `tensors` has been computed."""
        return tuple(self._digest(tensor) for tensor in tensors)

    def contents(self, tensors: Iterable[torch.Tensor]) -> frozenset[int]:
        """Digests of what the memory of `tensors` holds."""
        return frozenset(self._contents[_memory(tensor)].digest for tensor in tensors)

    def numbers(self, tensors: Iterable[torch.Tensor]) -> frozenset[str]:
        """Names of the watched numbers that `tensors` have been computed with."""
        contents = (self._contents.get(_memory(tensor)) for tensor in tensors)
        return frozenset().union(*(content.numbers for content in contents if content))

    def _put(self, tensor: torch.Tensor, content: _Content) -> None:
        if _memory(tensor) not in self._contents:
            self._alive.append(
                tensor if tensor.layout != torch.strided else tensor.untyped_storage()
            )
        self._contents[_memory(tensor)] = content
        self.held.add(content.digest)

    def _digest(self, tensor: torch.Tensor) -> int:
        content = self._contents.get(_memory(tensor))
        digest = _digest_of_values(tensor) if content is None else content.digest
        if tensor.layout != torch.strided:
            return hash((digest, str(tensor.layout), tensor.shape))
        view = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        return hash((digest, str(tensor.dtype), str(view), tensor.is_conj(), tensor.is_neg()))

    def _users_line(self) -> str:
        frame: Any = sys._getframe(2)
        while frame is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return ""
        self.codes.add(frame.f_code)
        return user_location(f'File "{frame.f_code.co_filename}", line {frame.f_lineno}')

    def _describe(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._digest(value)
        if isinstance(value, (list, tuple)):
            return tuple(map(self._describe, value))
        if isinstance(value, dict):
            return tuple((key, self._describe(member)) for key, member in value.items())
        return repr(value) if isinstance(value, (bool, int, float, complex)) else str(value)


def first_other_line(outcome: Outcome, known: Outcome) -> str:
    """The first line whose operator has another result than any in `known`, or ""."""
    lines = (line for digest, line in outcome.lines.items() if digest not in known.lines)
    return next(filter(None, lines), "")


def listed_constants(outcome: Outcome) -> set[int]:
    """The whole numbers of sets, tuples and dicts that are written in the code."""
    constants = (constant for code in outcome.codes for constant in code.co_consts)
    lists = (constant for constant in constants if isinstance(constant, (tuple, frozenset)))
    return {number for members in lists for number in members if isinstance(number, int)}


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else id(tensor)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _tensors(member)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """The tensors that a call changes in place."""
    given = dict(zip((argument.name for argument in func._schema.arguments), args)) | kwargs
    for argument in func._schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from _tensors(given.get(argument.name))


def _digest_of_values(tensor: torch.Tensor) -> int:
    """Of a tensor that no followed operator has given."""
    about = str(tensor.dtype), tuple(tensor.shape)
    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.numel() > _LARGEST:
        return hash(about)
    with no_dispatch():
        return hash((about, repr(tensor.detach().tolist())))
