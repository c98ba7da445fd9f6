"""The one exception a user is meant to read."""

from __future__ import annotations


class ExportError(ValueError):
    """A step that cannot be exported: what, where, and how to mend it.

    The message is one line, lower case, without a full stop. It is a ValueError, which is what
    FSDP2 raises for most of what it refuses.
    """
