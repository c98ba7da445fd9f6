"""What a user is meant to read: exceptions, each with its identifier, and notes."""

from __future__ import annotations

import argparse
import warnings
from typing import NoReturn, Optional

from .error_kinds import E


def identified(kind: E, message: str) -> str:
    """`message` as it is printed: with its identifier behind it (docs/errors.md)."""
    return f"{message} [{kind.identifier}]"


class Identified(Exception):
    """An exception whose kind is looked up by its identifier, which `str()` puts behind the text.

    Attributes:
        kind: an entry of docs/errors.md; None where the text is what a program said, which has
            its identifier in it.
        message: the text without the identifier, to be quoted by another error.
    """

    def __init__(self, kind: Optional[E], message: str) -> None:
        super().__init__(kind, message)
        if not isinstance(kind, (E, type(None))):
            raise TypeError(f"an error begins with its kind, and not with {kind!r}")
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return self.message if self.kind is None else identified(self.kind, self.message)


class ExportError(Identified, ValueError):
    """A step that cannot be exported: what, where, and how to mend it.

    The message is one line, lower case, without a full stop. It is a ValueError, which is what
    FSDP2 raises for most of what it refuses.
    """


class ExportNote(UserWarning):
    """Something that a user should know of a step, and need not change."""


def note(text: str) -> None:
    """Says `text` where warnings are said, as a note."""
    warnings.warn(text, ExportNote, stacklevel=2)


class RunError(Identified, RuntimeError):
    """A plan that cannot be loaded or run here: what, and how to mend it."""


class BatchError(RunError, ValueError):
    """A batch that is not what the plan reads. The step was not taken."""


class RankFailure(RunError):
    """Another rank failed, or left: what this one reports is a consequence."""


class ArgumentParser(argparse.ArgumentParser):
    """One whose errors have their identifier."""

    def error(self, message: str, kind: E = E.FLAG) -> NoReturn:
        super().error(identified(kind, message))
