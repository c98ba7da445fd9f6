"""Runs the Python of a step again without its tensors: each call of PyTorch's gives what it gave.

A step is recorded once, call by call. Run again with other numbers, it computes the same where it
makes the same calls, of the same tensors, in the same order. The first other call ends the attempt.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Mapping, NoReturn, Sequence
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _len_torch_dispatch_stack

from ... import package
from .outcomes import Outcome
from .watched_numbers import Watch

_TENSORS = (FakeTensor, torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
# What is compared by its value.
VALUES = (bool, int, float, complex, str, torch.device, type(None))
# What there is one of, which never changes.
SINGLE = (torch.dtype, torch.layout, torch.memory_format, type, type(Ellipsis))
# Sizes by values, which are compared by the expressions that compute them.
_SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool)
_ITERATORS = (type(iter([])), type(iter(())))
# Whose operators have no code of a user's in them.
_NAMESPACES = {"aten", "prim", "prims", "profiler"}


class OtherCall(BaseException):
    """The step makes another call than the recorded one; `except Exception` of its code lets it by."""


class Recording(TorchFunctionMode):
    """Within it, the calls of one step are recorded.

    Attributes:
        mode: that of tensors without values.
        states: what the step has of parameters and buffers; `batch`: and of inputs.
        outcome: what is followed of its operators.
        calls: each function, its arguments and its result.
        is_whole: whether these calls say all that the step did. They do not where code of a user's
            runs within one, as in a backward pass, or where an argument may change by itself.
        returned: the step's loss and metrics.
        result: what `outcome` says of them.
    """

    def __init__(
        self,
        mode: Any,
        states: Mapping[str, torch.Tensor],
        batch: Sequence[torch.Tensor],
        outcome: Outcome,
    ) -> None:
        super().__init__()
        self.mode, self.batch, self.outcome = mode, batch, outcome
        self.states = dict(states)  # before the step
        self.calls: list[tuple[Any, Any, Any]] = []
        self.is_whole = True
        self.returned: tuple[Any, Any] = (None, None)
        self.result: Any = None
        self._attributes = self._attributes_now()
        self._modes = 0

    def __enter__(self) -> Recording:
        self._patches = contextlib.ExitStack()
        self._patches.enter_context(noting_code_in_backward(self._is_not_whole))
        self._modes = _len_torch_dispatch_stack()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patches.close()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _copied((args, kwargs or {}))
        try:
            result = func(*args, **(kwargs or {}))
        except BaseException:
            self.is_whole = False
            raise
        is_iterator = isinstance(result, _ITERATORS)
        members = tuple(result) if is_iterator else result
        self.is_whole &= _is_plain(given) and _is_plain(members)
        self.is_whole &= _len_torch_dispatch_stack() == self._modes
        kept = _Iterated(members) if is_iterator else _copied(members)
        self.calls.append((unwrapped(func), given, kept))
        return iter(members) if is_iterator else result

    def end(self, value: Any, metrics: Any, result: Any) -> None:
        """Takes what the step has returned, and what that is."""
        self.returned, self.result = (value, dict(metrics)), result
        self.is_whole &= self._attributes == self._attributes_now()
        self.is_whole &= self.outcome.namespaces <= _NAMESPACES

    def _attributes_now(self) -> list[list[str]]:
        return [sorted(vars(tensor)) for tensor in (*self.states.values(), *self.batch)]

    def _is_not_whole(self) -> None:
        self.is_whole = False


@contextlib.contextmanager
def noting_code_in_backward(note: Callable[[], None]) -> Iterator[None]:
    """Within it, `note` is called where a step takes Python code that its backward pass runs: a
    function's own, or hooks of what is saved for it."""

    def noting(kind: type, name: str) -> Any:
        original = vars(kind)[name]
        is_of_class = isinstance(original, classmethod)
        function = original.__func__ if is_of_class else original

        def noted(*args: Any, **kwargs: Any) -> Any:
            note()
            return function(*args, **kwargs)

        return classmethod(noted) if is_of_class else noted

    with contextlib.ExitStack() as stack:
        for kind, name in (
            (torch.autograd.Function, "apply"),
            (torch.autograd.graph.saved_tensors_hooks, "__enter__"),
        ):
            stack.enter_context(mock.patch.object(kind, name, noting(kind, name)))
        yield


class _Iterated(tuple):
    """What an iterator gave, which a call returned."""


class Replay(TorchFunctionMode):
    """Within it, the calls of a step give what the recorded ones gave, and nothing is computed.

    Raises:
        OtherCall: in the step, where it makes another call, or one with a watched number.
    """

    def __init__(self, recording: Recording, watch: Watch) -> None:
        super().__init__()
        self._recording, self._watch = recording, watch
        self._next = 0
        self._differs = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls = self._recording.calls
        if self._differs or self._watch.within or self._next == len(calls):
            self.differ()
        recorded, given, result = calls[self._next]
        self._next += 1
        if recorded != unwrapped(func) or not _is_same(given, (args, kwargs or {})):
            self.differ()
        if not _has_tensors(given) and not _has_tensors(result):
            return func(*args, **(kwargs or {}))  # such as set_grad_enabled
        return iter(result) if isinstance(result, _Iterated) else _copied(result)

    def end(self, value: Any, metrics: Any) -> None:
        """Raises OtherCall where the step has made fewer calls, or returns other tensors."""
        returned = value, dict(metrics)
        is_end = self._next == len(self._recording.calls)
        if self._differs or not is_end or not _is_same(self._recording.returned, returned):
            self.differ()

    def differ(self) -> NoReturn:
        self._differs = True
        raise OtherCall


class NoOperators(TorchDispatchMode):
    """Within it, an operator that is no call of the `replay` ends it."""

    def __init__(self, replay: Replay) -> None:
        super().__init__()
        self._replay = replay

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._replay.differ()


def unwrapped(func: Any) -> Any:
    """What a function that this package has put in the place of one of PyTorch's stands for."""
    code = getattr(func, "__code__", None)
    is_ours = code is not None and code.co_filename.startswith(package.FOLDER)
    return getattr(func, "__wrapped__", func) if is_ours else func


def _copied(value: Any) -> Any:
    """`value` with the containers of now, whose members are the same."""
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {key: _copied(member) for key, member in value.items()}
    return value


def has_members(value: Any) -> bool:
    """Whether `members_of` gives all that a value is, with its type."""
    kind = type(value)
    is_container = kind in (list, tuple, dict, slice, torch.Size)
    return is_container or kind.__module__ == "torch.return_types"


def members_of(value: Any) -> Iterator[Any]:
    """The members of a container, or of a slice."""
    if isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)


def _is_plain(value: Any) -> bool:
    """Whether two of these can be told to be the same, now and later."""
    if type(value) in _TENSORS or isinstance(value, (*VALUES, *SINGLE, *_SIZES)):
        return True
    return has_members(value) and all(map(_is_plain, members_of(value)))


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, torch.Tensor):
        return False
    if isinstance(one, VALUES):
        return one == other and repr(one) == repr(other)
    if isinstance(one, _SIZES):
        return one.node.shape_env is other.node.shape_env and one.node.expr == other.node.expr
    ours, theirs = list(members_of(one)), list(members_of(other))
    return bool(ours or isinstance(one, (list, tuple, dict))) and (
        len(ours) == len(theirs) and all(map(_is_same, ours, theirs))
    )


def _has_tensors(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or any(map(_has_tensors, members_of(value)))
