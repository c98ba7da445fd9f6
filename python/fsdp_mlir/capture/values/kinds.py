"""What `isinstance(n, int)` is of a number that is a tensor: what it is of the number in eager mode."""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any, Iterator
from unittest import mock

from torch._subclasses.fake_tensor import DataDependentOutputException

from ... import package
from .python_floats import ReadNumber


def own_modules() -> list[ModuleType]:
    """Those that are loaded of the user's own files."""
    files = ((module, getattr(module, "__file__", None)) for module in list(sys.modules.values()))
    return [module for module, file in files if file and package.is_local(file)]


@contextlib.contextmanager
def kinds_of_numbers() -> Iterator[None]:
    """Within it, the user's own files find such a number to be an int or a float."""
    with contextlib.ExitStack() as stack:
        for module in own_modules():
            if "isinstance" not in vars(module):
                patch = mock.patch.object(module, "isinstance", _is_instance, create=True)
                stack.enter_context(patch)
        yield


def _is_instance(value: Any, kinds: Any) -> bool:
    if not isinstance(value, ReadNumber):
        return isinstance(value, kinds)
    if value.has_fraction or issubclass(int, kinds) or not issubclass(bool, kinds):
        return issubclass(float if value.has_fraction else int, kinds)
    raise DataDependentOutputException("isinstance")  # a flag that a step keeps is a number here
