"""What `isinstance(n, int)` and `type(n)` are of a number that is a tensor: what they are
of the number in eager mode."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any, Iterator
from unittest import mock

from torch._subclasses.fake_tensor import DataDependentOutputException

from ... import package
from .python_floats import ReadNumber

# All modules when they were last looked at, and those of the user's own files.
_looked_at: tuple[list[ModuleType], list[ModuleType]] = [], []


# Libraries' modules that have drawn random numbers, or read numbers from tensors, with which they compute
# as a user's do.
_computing: list[ModuleType] = []


def has_numbers(names: dict[str, Any]) -> bool:
    """Notes that the module which has these names draws random numbers, or reads numbers; gives whether
    that is new."""
    module = sys.modules.get(names.get("__name__", ""))
    is_new = module is not None and vars(module) is names and module not in own_modules()
    if is_new:
        _computing.append(module)
    return is_new


def own_modules() -> list[ModuleType]:
    """Those that are loaded of the user's own files, and those that have such numbers."""
    global _looked_at
    modules = list(sys.modules.values())
    if modules != _looked_at[0]:
        files = ((module, package.file_of(module)) for module in modules)
        _looked_at = modules, [m for m, file in files if file and package.is_local(file)]
    return _looked_at[1] + _computing


@contextlib.contextmanager
def kinds_of_numbers() -> Iterator[None]:
    """Within it, the user's own files find such a number to be an int or a float."""
    with contextlib.ExitStack() as stack:
        for module in own_modules():
            for name, asks in (("isinstance", _is_instance), ("type", _type_in(module))):
                if name not in vars(module):
                    stack.enter_context(mock.patch.object(module, name, asks, create=True))
        yield


def _kind(number: ReadNumber) -> type:
    return float if number.has_fraction else int


def _is_instance(value: Any, kinds: Any) -> bool:
    if not isinstance(value, ReadNumber):
        return isinstance(value, kinds)
    if value.has_fraction or issubclass(int, kinds) or not issubclass(bool, kinds):
        return issubclass(_kind(value), kinds)
    raise DataDependentOutputException("isinstance")  # a flag that a step keeps is a number here


def _type_in(module: ModuleType) -> type:
    """What stands in for `type` in a module, for whose own `int` another class may stand in."""

    class Asks(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if len(args) != 1:
                return type(*args, **kwargs)
            kind = _kind(args[0]) if type(args[0]) is ReadNumber else type(args[0])
            own = vars(module).get(kind.__name__) if kind in (int, float) else None
            return own if isinstance(own, type) and issubclass(own, kind) else kind

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, type)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, type)

    class Type(type, metaclass=Asks):
        pass

    return Type
