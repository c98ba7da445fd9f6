"""Notices numbers, modes, functions and tensors that a script changes between steps, and that the step
reads in Python: a plan has what they were when it was compiled."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import types
import weakref
from typing import Any, Callable, Iterator, Optional

import torch

from ..capture.context import SharedForward
from ..capture.state.places import Place
from ..capture.state.reached import Reached
from ..capture.step_loss import StepLoss
from ..step.held_tensors import version_of
from ..step.training_step import TrainingStep

_NUMBERS = (bool, int, float, str, type(None))
# Python's operations that read a variable of a module, and an attribute.
_OF_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_OF_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
# So many numbers of a list or a dict are watched, in what it has of these, too.
_MOST_MEMBERS = 100

Read = Callable[[], Any]


class CompiledValues:
    """Those that functions of the step reach, as they were then. None of their owners is kept alive."""

    def __init__(self, step: TrainingStep) -> None:
        loss = StepLoss(
            step.model, step.turns, step.outputs, tuple(step.batches[0]), SharedForward()
        )
        reached = Reached(loss)
        is_read = _ReadBy(reached.functions)
        self._numbers: list[tuple[str, Read, Any]] = []
        self._functions: list[tuple[str, Read, Read]] = []
        self._tensors: list[tuple[str, Read, weakref.ref[torch.Tensor], int]] = []
        for place in filter(is_read, reached.places):
            self._watch(place.name, _reader(place))
        self._modules = [(n, weakref.ref(module)) for n, module in step.model.named_modules()]
        self._forwards = self._own_forwards()
        of_model = set(step.model.modules())
        others = {p.owner: None for p in reached.places if isinstance(p.owner, torch.nn.Module)}
        for module in others.keys() - of_model:
            for name, _ in module.named_buffers(recurse=False):
                self._watch(f"{type(module).__name__}.{name}", _attribute(module, name))

    def _own_forwards(self) -> list[Optional[int]]:
        """The functions that modules have in the place of their class's, by identity, since a function may
        keep its module alive; None of a module that is gone."""
        modules = [reference() for _, reference in self._modules]
        return [None if m is None else id(m.__dict__.get("forward")) for m in modules]

    def _watch(self, name: str, read: Read) -> None:
        value = read()
        if isinstance(value, torch.Tensor):
            self._tensors.append((name, read, weakref.ref(value), version_of(value)))
        elif isinstance(value, _NUMBERS):
            self._numbers.append((name, read, value))
        elif isinstance(value, _FUNCTIONS):
            self._functions.append((name, read, _weakly(value)))
        elif isinstance(value, (list, dict)):
            self._numbers += itertools.islice(_numbers_in(name, read), _MOST_MEMBERS)

    def changed(self) -> Optional[str]:
        """What the first one of another value was, and is; None where there is none."""
        for name, read, before in self._numbers:
            now = read()
            if now is not before and isinstance(now, _NUMBERS) and now != before:
                return f"{name} was {before!r} when the step was compiled and is {now!r} now"
        for name, read, function in self._functions:
            now = read()
            if isinstance(now, _FUNCTIONS) and now != function():
                return f"{name} is another function than when the step was compiled"
        for (path, _), now, forward in zip(self._modules, self._own_forwards(), self._forwards):
            if now is not None and now != forward:
                name = ".".join(filter(None, ("model", path, "forward")))
                return f"{name} is another function than when the step was compiled"
        for name, read, reference, version in self._tensors:
            now, before = read(), reference()
            if not isinstance(now, torch.Tensor) or now is before and version_of(now) == version:
                continue
            if before is None or now is before or not torch.equal(now, before):
                return f"{name}, a tensor, has other values than when the step was compiled"
        return None


def _numbers_in(name: str, read: Read, depth: int = 4) -> Iterator[tuple[str, Read, Any]]:
    """The numbers in what is read, and in the lists and dicts that it has, by names."""
    container = read()
    for key in container if isinstance(container, dict) else range(len(container)):
        member = f"{name}[{key!r}]", functools.partial(_member, read, key)
        value = container[key]
        if isinstance(value, _NUMBERS):
            yield *member, value
        elif isinstance(value, (list, dict)) and depth:
            yield from _numbers_in(*member, depth - 1)


def _member(read: Read, key: Any) -> Any:
    """What is at a place of a list or a dict now; a container, where it is none any more."""
    container = read()
    if isinstance(container, dict):
        return container.get(key, container)
    is_there = isinstance(container, list) and key < len(container)
    return container[key] if is_there else container


def _weakly(function: Any) -> Read:
    """Gives `function` while it lives; builtin ones, and those of what has no weak references, do."""
    is_method = isinstance(function, types.MethodType)
    try:
        return weakref.WeakMethod(function) if is_method else weakref.ref(function)
    except TypeError:
        return lambda: function


def _attribute(owner: Any, name: str) -> Read:
    reference = weakref.ref(owner)
    return lambda: getattr(reference(), name, None)


class _ReadBy:
    """Whether functions, or the modules that they call, name what stands at a place."""

    def __init__(self, functions: list[types.FunctionType]) -> None:
        codes = [function.__code__ for function in functions if function.__name__ != "__init__"]
        self._names = {name for code in codes for name in _names(code)}
        self._tables = {id(function.__globals__) for function in functions}
        self._variables = {
            (id(function.__globals__), name)
            for function in functions
            for name in _arguments(function.__code__, _OF_GLOBALS)
        }

    def __call__(self, place: Place) -> bool:
        if isinstance(place.owner, torch.nn.Module):
            # A mode is a module's own: those inside it have theirs.
            is_named = place.key in self._names and place.key != "training"
            return is_named or place.key in _names_of_class(type(place.owner))
        if place.owner is not None:
            return place.key in self._names
        if id(place.table) in self._tables:
            return (id(place.table), place.key) in self._variables
        of_class = inspect.isclass(place.holder) and place.key in self._names
        return place.key == "cell_contents" or of_class


def _reader(place: Place) -> Read:
    """What gives the value of `place` now, or None where its owner is gone."""
    if place.owner is None:
        return place.read
    key, default = place.key, place.default
    try:
        owner = weakref.ref(place.owner)
    except TypeError:  # as of a SimpleNamespace
        return place.read
    return lambda: getattr(owner(), "__dict__", {}).get(key, default)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """That of a function, and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(code: types.CodeType) -> set[str]:
    """The attributes that code reads, and its texts, which may name one: `getattr(self, "weight")`."""
    names = _arguments(code, _OF_ATTRIBUTES)
    return names.union(c for part in _codes(code) for c in part.co_consts if isinstance(c, str))


def _arguments(code: types.CodeType, operations: tuple[str, ...]) -> set[str]:
    return {
        instruction.argval
        for part in _codes(code)
        for instruction in dis.get_instructions(part)
        if instruction.opname in operations
    }


@functools.cache
def _names_of_class(kind: type) -> set[str]:
    """The names in what a module's class computes, a library's too."""
    kinds = [k for k in kind.__mro__ if k not in (torch.nn.Module, object)]
    methods = [
        inspect.unwrap(method)
        for k in kinds
        for name, method in vars(k).items()
        if inspect.isfunction(method) and "forward" in name  # _conv_forward too
    ]
    return {name for method in methods for name in _names(method.__code__)}
