"""What a user is meant to read when a checkpoint cannot be used."""

from __future__ import annotations

from ..errors import E, Identified


class CheckpointError(Identified):
    """The fact, then how to mend it: one line, lower case, without a full stop."""


class Damage(CheckpointError):
    """A checkpoint's bytes are not those that were written."""

    def __init__(self, message: str) -> None:
        super().__init__(E.CHECKPOINT_DAMAGED, message)
