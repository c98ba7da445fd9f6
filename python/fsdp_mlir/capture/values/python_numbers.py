"""Counts that code reads from a tensor and computes with: `n = mask.sum().item()`, `max(1, n)`.

No Python runs while a plan does, so that such a count is a tensor without dimensions. Code that
branches on it, or needs it as a size, is refused where it does so. `python_floats` has the numbers
with a fraction.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import dataclasses
import functools
import operator
import sys
from typing import Any, Callable, Iterator, Optional, Sequence
from unittest import mock

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

from ... import package
from ...step.places import innermost, is_users
from ..graph.known_values import known_value
from .call_arguments import places_of
from .drawn_ranges import constrained
from .numpy_arrays import ITEMS, OF_DATA
from .number_arguments import FULL, call_with_tensors, plain_name
from .python_floats import NumpyNumber, ReadNumber, is_number, read_value, takes_numbers

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def as_count(tensor: torch.Tensor) -> Optional[torch.Tensor]:
    """What `tensor.item()` is where the value is not known; None: no count."""
    if tensor.numel() != 1 or tensor.dtype not in _INTEGERS:
        return None
    return tensor.to(torch.int64).reshape(())


def as_symbol(tensor: Any) -> Optional[torch.SymInt]:
    """The symbol of such a number, which code may have as a place or a size; None: no count."""
    if not isinstance(tensor, torch.Tensor) or as_count(tensor) is None:
        return None
    with mock.patch.object(detect_fake_mode(), "allow_scalar_outputs", True):
        return constrained(torch.ops.aten._local_scalar_dense(tensor), tensor)


class NoListsOfCounts(TorchFunctionMode):
    """Within it, `t[[n, m]]` of such counts is refused: PyTorch takes a list of tensors without
    dimensions for an index of each dimension, and one of numbers for rows. A list of them may become a
    tensor, and one of them fill a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ITEMS and any(isinstance(m, torch.Tensor) for m in _in_lists(args[1])):
            raise DataDependentOutputException("index")
        if (made := _made(func, args, kwargs or {})) is not None:
            return made
        if plain_name(func) in FULL and any(_is_unknown(value) for value in args[1:]):
            filling = [ReadNumber(v) if _is_unknown(v) else v for v in args[1:]]
            return call_with_tensors(func, (args[0], *filling), kwargs or {}, read_value)
        return func(*args, **(kwargs or {}))


def _in_lists(index: Any) -> Iterator[Any]:
    """The members of lists in an index."""
    for place in places_of(index):
        if isinstance(place, list):
            yield from place


class _SymbolsInItems(TorchFunctionMode):
    """Within it, `t[symbol]`, `t[[symbol, symbol]]` and `t[place] = symbol` are read and written, for
    which PyTorch wants numbers of Python's; so is `t[count]`, of which PyTorch reads the number, and a
    list of symbols may become a tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ITEMS:
            tensor, index, *values = args
            if any(isinstance(member, torch.SymInt) for member in _in_lists(index)):
                index = tuple(map(_as_rows, places_of(index)))
                args = tensor, index, *values
            index = tuple(map(_as_place, places_of(index)))
            args = tensor, index, *values
            if any(isinstance(place, torch.SymInt) or _length_of(place) for place in index):
                args = _part(tensor, index), (), *values
            if values and isinstance(values[0], torch.SymInt):
                args = *args[:2], torch.scalar_tensor(values[0], dtype=tensor.dtype)
            elif values and isinstance(values[0], ReadNumber):
                args = *args[:2], read_value(values[0]).to(tensor.dtype)
        if (made := _made(func, args, kwargs or {})) is not None:
            return made
        if not takes_numbers(func):
            args = tuple(map(_whole_as_symbol, args))
            kwargs = {key: _whole_as_symbol(value) for key, value in (kwargs or {}).items()}
        return func(*args, **(kwargs or {}))


def _made(func: Any, args: Any, kwargs: dict[str, Any]) -> Optional[torch.Tensor]:
    """What `torch.tensor` and `x.new_tensor` make of such numbers; None: of other data, or another call."""
    if func not in OF_DATA and func is not torch.Tensor.new_tensor or "data" in kwargs:
        return None
    made = tensor_of(args[-1])
    dtype = kwargs.get("dtype") or (None if func in OF_DATA else args[0].dtype)
    return None if made is None else made.to(dtype)


def tensor_of(data: Any) -> Optional[torch.Tensor]:
    """The tensor that a number which is read is, or a list of numbers with one; None: other data."""
    if _is_counts(data):
        return _as_rows(data)
    if isinstance(data, NumpyNumber):
        return data.value.clone()
    if isinstance(data, ReadNumber):
        return torch.full((), data)
    members = data if isinstance(data, list) else []
    if not all(is_number(member) or _is_unknown(member) for member in members):
        return None
    if all(type(member) in (bool, int, float) for member in members):
        return None
    numbers = [_member(member) for member in members]
    dtype = functools.reduce(torch.promote_types, (number.dtype for number in numbers))
    return torch.stack([number.to(dtype) for number in numbers])


def _member(number: Any) -> torch.Tensor:
    if isinstance(number, torch.Tensor):
        return number.detach()
    return tensor_of(number) if isinstance(number, ReadNumber) else torch.full((), number)


def _is_unknown(value: Any) -> bool:
    """Whether it is a tensor without dimensions, whose value nobody knows."""
    return isinstance(value, torch.Tensor) and value.dim() == 0 and known_value(value) is None


def _whole_as_symbol(value: Any) -> Any:
    """A whole number that is read as its symbol, which is a size or a place, and any other value."""
    is_whole = isinstance(value, ReadNumber) and not value.has_fraction
    return as_symbol(value.value) if is_whole else value


def _is_counts(data: Any) -> bool:
    """Whether it is a list of whole numbers, of which some are not known."""
    kinds = set(map(type, data)) if isinstance(data, list) else set()
    return torch.SymInt in kinds and kinds <= {int, torch.SymInt}


def _as_rows(place: Any) -> Any:
    """A list of symbols and numbers as the tensor that says which rows, and any other place."""
    if not isinstance(place, list):
        return place
    return torch.stack([torch.scalar_tensor(number, dtype=torch.int64) for number in place])


def _as_place(place: Any) -> Any:
    """A whole number that is a tensor without dimensions as its symbol, also in a slice, and any other
    place."""
    if isinstance(place, slice):
        return slice(*map(_as_place, (place.start, place.stop, place.step)))
    place = read_value(place)
    if not isinstance(place, torch.Tensor) or place.dim() > 0 or place.dtype == torch.uint8:
        return place
    symbol = as_symbol(place)
    return place if symbol is None else symbol


@dataclasses.dataclass
class Parts:
    """Parts such as `x[at : at + 8]`, of which nobody knows whether they have 8 elements.

    Attributes:
        are_whole: whether they have, as code needs that asks how many there are. A step of a plan whose
            part has fewer ends with an error.
        were_met: whether a step has had one.
    """

    are_whole: bool = False
    were_met: bool = False


_parts = contextvars.ContextVar("_parts", default=Parts())


@contextlib.contextmanager
def parts(are_whole: bool = False) -> Iterator[Parts]:
    """Those of the steps that run within it."""
    token = _parts.set(Parts(are_whole))
    try:
        yield _parts.get()
    finally:
        _parts.reset(token)


def _length_of(place: Any) -> Optional[int]:
    """How many elements a slice between symbols has that is whole; None: of other places, nobody says."""
    if not isinstance(place, slice) or not isinstance(place.start, torch.SymInt):
        return None
    if place.stop is None or place.step not in (None, 1):
        return None
    length = place.stop - place.start
    if isinstance(length, torch.SymInt):
        expression = length.node.expr
        length = int(expression) if expression.is_Integer else None
    if length is None or length <= 0:
        return None
    _parts.get().were_met = True
    return length if _parts.get().are_whole else None


def _part(tensor: torch.Tensor, index: tuple[Any, ...]) -> torch.Tensor:
    """The view of `tensor` that an index of numbers, symbols, slices, None and `...` is."""
    dim = 0
    for i, place in enumerate(index):
        if place is Ellipsis:
            dim = tensor.dim() - sum(other is not None for other in index[i + 1 :])
        elif place is None:
            tensor = tensor.unsqueeze(dim)
            dim += 1
        elif isinstance(place, slice):
            tensor = tensor[(slice(None),) * dim + (place,)]
            if (length := _length_of(place)) is not None:
                torch._check(tensor.shape[dim] == length)
            dim += 1
        elif isinstance(place, torch.SymInt):  # no select has it in its views
            is_from_end = torch.sym_max(-1, torch.sym_min(0, place))  # as -1, else 0
            place = place - is_from_end * tensor.shape[dim]
            tensor = tensor[(slice(None),) * dim + (slice(place, place + 1),)]
            torch._check(tensor.shape[dim] == 1)
            tensor = tensor.select(dim, 0)
        elif isinstance(place, int):
            tensor = tensor.select(dim, place)
        else:
            raise DataDependentOutputException("index")
    return tensor


@contextlib.contextmanager
def symbols_as_numbers() -> Iterator[None]:
    """Within it, code may have symbols where Python takes nothing but numbers: in `tensor.tolist()`, and
    as places of items."""
    with contextlib.ExitStack() as stack:
        for kind in (torch.Tensor, FunctionalTensor):
            symbols = _lists_of_symbols(kind.tolist)
            stack.enter_context(mock.patch.object(kind, "tolist", symbols))
        stack.enter_context(_SymbolsInItems())
        yield


def _lists_of_symbols(original: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    @functools.wraps(original)
    def tolist(tensor: torch.Tensor) -> Any:
        try:
            return original(tensor)
        except DataDependentOutputException:
            users = is_users(sys._getframe(1).f_code.co_filename)
            symbols = (
                [as_symbol(number) for number in tensor] if users and tensor.dim() == 1 else []
            )
            if None in symbols or not symbols:
                raise
            return symbols

    return tolist


@contextlib.contextmanager
def larger_and_smaller() -> Iterator[None]:
    """Within it, `max(a, b)` and `min(a, b)` of the user's code choose among such counts, tensors
    without dimensions, and sizes that depend on values."""
    with contextlib.ExitStack() as stack:
        for name, of_sizes, first in (
            ("max", torch.sym_max, operator.gt),
            ("min", torch.sym_min, operator.lt),
        ):
            chosen = _choosing(getattr(builtins, name), of_sizes, first)
            stack.enter_context(mock.patch.object(builtins, name, chosen))
        padding = _padding(torch._C._nn.pad_sequence)
        stack.enter_context(mock.patch.object(torch._C._nn, "pad_sequence", padding))
        yield


def _padding(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`pad_sequence`, which asks which length is the largest, where lengths depend on values."""

    @functools.wraps(original)
    def pad_sequence(
        parts: Sequence[torch.Tensor],
        batch_first: bool = False,
        padding_value: float = 0.0,
        padding_side: str = "right",
    ) -> torch.Tensor:
        lengths = [part.shape[0] for part in parts]
        if padding_side != "right" or not any(isinstance(n, torch.SymInt) for n in lengths):
            return original(parts, batch_first, padding_value, padding_side)
        longest = functools.reduce(torch.sym_max, lengths)
        rest = [0, 0] * (parts[0].dim() - 1)
        padded = [
            torch.constant_pad_nd(part, [*rest, 0, longest - length], padding_value)
            for part, length in zip(parts, lengths)
        ]
        return torch.stack(padded, 0 if batch_first else 1)

    return pad_sequence


def _choosing(
    original: Callable[..., Any], of_sizes: Callable[..., Any], first: Callable[..., Any]
) -> Callable[..., Any]:
    def choice(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except (DataDependentOutputException, GuardOnDataDependentSymNode):
            frame = innermost(sys._getframe(1), lambda path: not path.startswith(package.FOLDER))
            values = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
            if len(values) < 2 or kwargs or not frame or not is_users(frame.f_code.co_filename):
                raise
            return functools.reduce(of_two, values)

    def of_two(one: Any, other: Any) -> Any:
        """As Python chooses, of equal ones the first, and of NaN."""
        if any(isinstance(value, ReadNumber) for value in (one, other)):
            return ReadNumber.chosen(first(other, one), other, one)
        if any(isinstance(value, torch.Tensor) for value in (one, other)):
            return torch.where(first(other, one), other, one)
        if any(isinstance(value, (torch.SymInt, torch.SymFloat)) for value in (one, other)):
            return of_sizes(one, other)
        return original(one, other)

    return choice
