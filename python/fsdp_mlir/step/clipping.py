"""Clipping of gradients: the options of `TrainingStep`, checked, and what the archive says."""

from __future__ import annotations

import math
from typing import Any, Optional, Union

from ..errors import E, ExportError

Norm = Union[float, "tuple[float, float]"]


def check_clipping(norm: Any, value: Any) -> tuple[Optional[tuple[float, float]], Optional[float]]:
    """The largest norm with its type, and the largest value, where they are given.

    Args:
        norm: a number, whose type is 2, or (max_norm, norm_type); or None.
        value: a number, or None.

    Raises:
        ExportError: something else, nothing that can be clipped to, or both.
    """
    if norm is not None and value is not None:
        raise ExportError(
            E.STEP_ARGUMENT,
            "both clip_grad_norm and clip_grad_value are given; give the one that bounds gradients",
        )
    if value is not None:
        if not _is_number(value) or not 0 < value < math.inf:
            raise ExportError(
                E.STEP_ARGUMENT,
                f"clip_grad_value is {_shown(value)}; give a number above 0: what a gradient's "
                "elements may be at most",
            )
        return None, float(value)
    if norm is None:
        return None, None
    pair = norm if isinstance(norm, (tuple, list)) else (norm, 2.0)
    if len(pair) != 2 or not _is_number(pair[0]) or not pair[0] > 0:
        raise ExportError(
            E.STEP_ARGUMENT,
            f"clip_grad_norm is {_shown(norm)}; give a norm above 0, alone or as "
            "(max_norm, norm_type)",
        )
    kind = math.inf if pair[1] == "inf" else pair[1]
    if not _is_number(kind) or not kind >= 1:
        raise ExportError(
            E.STEP_ARGUMENT,
            f"clip_grad_norm has the norm type {_shown(kind)}; give 1, 2, another p of at least 1, "
            "or inf",
        )
    return (float(pair[0]), float(kind)), None


def describe_clipping(
    norm: Optional[tuple[float, float]], value: Optional[float]
) -> dict[str, Any]:
    """The archive's fields. JSON has no infinity: it is the string "inf"."""

    def number(x: float) -> Any:
        return "inf" if math.isinf(x) else x

    return {
        "clip_grad_norm": norm and {"max_norm": number(norm[0]), "norm_type": number(norm[1])},
        "clip_grad_value": value,
    }


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and not math.isnan(x)


def _shown(x: Any) -> str:
    return repr(x) if isinstance(x, (int, float, str, tuple)) else type(x).__name__
