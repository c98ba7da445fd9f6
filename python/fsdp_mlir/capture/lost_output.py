"""Names the lines of a user's code that print or log: no Python runs while a plan does, so that
nothing of it is seen in a run."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from typing import Any, Callable, Iterator
from unittest import mock

from torch._dynamo.variables import misc

from ..errors import warn
from ..package import is_local
from ..step.places import in_short, own_line

_LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "error", "critical")}
_LEVELS |= {"warn": logging.WARNING, "warning": logging.WARNING, "exception": logging.ERROR}


@contextlib.contextmanager
def named_where_followed() -> Iterator[None]:
    """Within it Dynamo follows the user's code, and drops what it would print; behind it there is a
    warning for each line of the user's own that would have."""
    functions, loggers = misc.IgnoredFunctionVariable, misc.LoggingLoggerVariable
    with _told() as places:
        ignored, logged = (
            _ignored(places, functions.call_function),
            _logged(places, loggers.call_method),
        )
        with (
            mock.patch.object(functions, "call_function", ignored),
            mock.patch.object(loggers, "call_method", logged),
        ):
            yield


@contextlib.contextmanager
def named_where_run() -> Iterator[None]:
    """Does what `named_where_followed` does, for code that runs."""
    with _told() as places:
        handle = _handle(places, logging.Logger.handle)
        with (
            contextlib.redirect_stdout(_Stdout(places)),
            mock.patch.object(logging.Logger, "handle", handle),
        ):
            yield


@contextlib.contextmanager
def _told() -> Iterator[dict[str, str]]:
    """Lines, and what each of them calls, which are told when the block ends."""
    places: dict[str, str] = {}
    try:
        yield places
    finally:
        for place, what in places.items():
            warn(
                f"{place}: {what} in the loss shows nothing while a plan runs, which runs no Python; "
                "return what is to be seen from metrics, or leave the line out"
            )


class _Stdout(io.StringIO):
    """Takes what running code prints."""

    def __init__(self, places: dict[str, str]) -> None:
        super().__init__()
        self._places = places

    def write(self, text: str) -> int:
        if place := own_line(sys._getframe(1)):
            self._places.setdefault(place, "print")
        return len(text)


def _handle(places: dict[str, str], original: Callable[..., Any]) -> Callable[..., Any]:
    """Of running code, `Logger.handle`, which knows who logs."""

    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        if is_local(record.pathname):
            what = f"a logger's {record.levelname.lower()}"
            places.setdefault(f"{record.filename}:{record.lineno}", what)
        else:
            original(logger, record)

    return handle


def _ignored(places: dict[str, str], original: Callable[..., Any]) -> Callable[..., Any]:
    """Of code that Dynamo follows, calls of `print` and `warnings.warn`."""

    def call_function(variable: Any, tx: Any, *args: Any) -> Any:
        if variable.value in (print, warnings.warn):
            _note(places, tx, variable.value.__name__)
        return original(variable, tx, *args)

    return call_function


def _logged(places: dict[str, str], original: Callable[..., Any]) -> Callable[..., Any]:
    """And of a logger's methods, where it is not silent anyway."""

    def call_method(variable: Any, tx: Any, name: str, *args: Any) -> Any:
        if name in _LEVELS and variable.value.isEnabledFor(_LEVELS[name]):
            _note(places, tx, f"a logger's {name}")
        return original(variable, tx, name, *args)

    return call_method


def _note(places: dict[str, str], tx: Any, what: str) -> None:
    path = tx.f_code.co_filename
    if is_local(path):
        places.setdefault(in_short(path, tx.lineno), what)
