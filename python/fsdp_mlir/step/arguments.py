"""What arguments are held to, in one form of words."""

from __future__ import annotations

from typing import Any

from ..errors import E, ExportError


def require(holds: bool, name: str, wanted: str, value: Any) -> None:
    """Raises ExportError, which shows `value`, where the argument `name` is not what is wanted."""
    if not holds:
        shown = repr(value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
        raise ExportError(E.STEP_ARGUMENT, f"{name} is {shown}; give {wanted}")
