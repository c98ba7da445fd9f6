"""What a user is meant to read: the one exception, and notes."""

from __future__ import annotations

import warnings


class ExportError(ValueError):
    """A step that cannot be exported: what, where, and how to mend it.

    The message is one line, lower case, without a full stop. It is a ValueError, which is what
    FSDP2 raises for most of what it refuses.
    """


class ExportNote(UserWarning):
    """Something that a user should know of a step, and need not change."""


def note(text: str) -> None:
    """Says `text` where warnings are said, as a note."""
    warnings.warn(text, ExportNote, stacklevel=2)
