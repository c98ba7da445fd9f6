"""Options by name: a mistyped one is an error that says which was meant."""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import Any, Callable, Iterable, TypeVar

from .errors import E, Identified

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)


class OptionError(Identified, TypeError):
    """A keyword that does not exist, or an argument that is missing."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of `known` that is spelled most like `name`."""
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]


def checked_options(function: Function) -> Function:
    """Makes a keyword that `function` does not take a TypeError that names the nearest one, and says
    what it takes where an argument is missing."""
    what = function.__qualname__.removesuffix(".__init__")
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name != "self"]

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                raise OptionError(
                    E.STEP_ARGUMENT,
                    f"{what} has no option {name!r}; the nearest is {nearest(name, known)!r}, all "
                    f"are {', '.join(known)}",
                )
        try:
            signature.bind(*args, **options)
        except TypeError as error:
            raise OptionError(
                E.STEP_ARGUMENT, f"{what}: {error}; it takes {', '.join(known)}"
            ) from None
        return function(*args, **options)

    return call  # type: ignore[return-value]


def checked_fields(cls: Class) -> Class:
    """Does what `checked_options` does, for the constructor of a class."""
    cls.__init__ = checked_options(cls.__init__)
    return cls
