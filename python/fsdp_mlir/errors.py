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


class RunError(RuntimeError):
    """A plan that cannot be loaded or run here: what, and how to mend it."""


class BatchError(RunError, ValueError):
    """A batch that is not what the plan reads. The step was not taken."""


class RankFailure(RunError):
    """Another rank failed, or left: what this one reports is a consequence."""
