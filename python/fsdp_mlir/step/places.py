"""Whose code a file has, and which of a user's lines a trace names."""

from __future__ import annotations

import functools
import inspect
import os
import re
from types import FrameType
from typing import Any, Callable, Optional, Union

import torch

from .. import package

# PyTorch's folder, with what separates folders behind it: torchvision's code is a user's.
PYTORCH = os.path.join(os.path.dirname(torch.__file__), "")
_PYTHON = os.path.join(os.path.dirname(os.__file__), "")
FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def is_users(path: str) -> bool:
    """Whether the source file `path` is neither PyTorch's nor ours, nor compiled, as NumPy's are."""
    return not path.startswith((PYTORCH, package.FOLDER, "<")) and not path.endswith(
        ("_dynamo/__init__.py", ".pyx", ".pxd", ".pxi")
    )


def is_pythons(path: str) -> bool:
    """Whether a source file is Python's own; packages may be installed below it."""
    return path.startswith(_PYTHON) and not package.is_in_packages(path)


def in_short(path: str, line: Union[int, str]) -> str:
    """A line of a file as messages name it: `file.py:31`."""
    return f"{os.path.basename(path)}:{line}"


def at_line(line: str, text: str) -> str:
    """`file.py:31: text`, or the text alone where the line is "", not known."""
    return f"{line}: {text}" if line else text


def user_location(trace: str) -> str:
    """`file.py:31` of the innermost frame in `trace` that is not PyTorch's, ours or Python's, or ""."""
    for path, line in reversed(FRAME.findall(trace)):
        if is_users(path) and not is_pythons(path):
            return in_short(path, line)
    return ""


def said_location(trace: str) -> str:
    """That line as messages have it: behind the user's own line that calls it, where it is a library's,
    as in `step.py:12, in boxes.py:115`."""
    own, line = own_location(trace), user_location(trace)
    return f"{own}, in {line}" if line and own != line else own


def own_location(trace: str) -> str:
    """That line alone, or, where none of the user's own is in `trace`, that of a library."""
    own = [in_short(path, line) for path, line in FRAME.findall(trace) if _is_own(path)]
    return own[-1] if own else user_location(trace)


def _is_own(path: str) -> bool:
    return package.is_local(path) and os.path.exists(path)


def own_line(frame: Optional[FrameType]) -> str:
    """`file.py:31` of the innermost of `frame` and its callers that is of a user's own file, or ""."""
    return line_of(innermost(frame, package.is_local))


def line_of_definition(function: Any) -> str:
    """`file.py:31`, where a user's function, or the class of what is called like one, begins, or
    ""."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if code is None or not _is_own(code.co_filename):
        return ""
    return in_short(code.co_filename, code.co_firstlineno)


def innermost(frame: Optional[FrameType], whose: Callable[[str], bool]) -> Optional[FrameType]:
    """The innermost of `frame` and its callers whose file is one of those, or None."""
    while frame is not None and not whose(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def line_of(frame: Optional[FrameType]) -> str:
    """`file.py:31`, where a frame is, or "" of None."""
    return "" if frame is None else in_short(frame.f_code.co_filename, frame.f_lineno)


def said_line(frame: Optional[FrameType]) -> str:
    """The line of a frame as messages have it (`said_location`), or "" of None."""
    return "" if frame is None else said_location(trace_of(frame))


def trace_of(frame: FrameType) -> str:
    """A frame's text in a trace, after the user's own line that led to it."""
    frames = dict.fromkeys(filter(None, (innermost(frame, package.is_local), frame)))
    return "\n".join(f'File "{f.f_code.co_filename}", line {f.f_lineno}' for f in frames)
