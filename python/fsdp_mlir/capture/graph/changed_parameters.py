"""Parameters that a step changes and nothing trains, as a teacher's that follows its student."""

from __future__ import annotations

from typing import Iterable


class UntrainedParametersChanged(Exception):
    """A capture found parameters that the step changes in place, and that are frozen or get no
    gradient. They are states that each rank has whole and changes for itself, which is what buffers
    are: the step is to be captured with these as buffers.

    Attributes:
        names: theirs.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        first, *others = sorted(self.names)
        more = f" and {len(others)} more" if others else ""
        super().__init__(
            f"the step changes parameters that nothing trains ({first}{more}): each rank has them whole, as buffers"
        )
