"""What Python computes of two whole numbers by `<<`, `>>` and `**`, where the numbers are tensors
of int64.

Python's whole numbers have as many bits as they need. So a step ends with an error where a result
does not fit, and where Python would raise, or give a number with a fraction.
"""

from __future__ import annotations

import sys
from typing import Union

import torch

from ...step.places import at_line, innermost, is_users, said_line

Whole = Union[torch.Tensor, torch.SymInt]
_MOST_BITS = 63


def shifted_left(number: Whole, places: Whole) -> torch.Tensor:
    number, places = _tensor(number), _tensor(places)
    result = number << places.clamp(0, _MOST_BITS)
    fits = (result >> places.clamp(0, _MOST_BITS) == number) & (places < _MOST_BITS)
    return _checked((fits | (number == 0)) & (places >= 0), result)


def shifted_right(number: Whole, places: Whole) -> torch.Tensor:
    number, places = _tensor(number), _tensor(places)
    return _checked(places >= 0, number >> places.clamp(0, _MOST_BITS))


def power(base: Whole, exponent: Whole) -> torch.Tensor:
    base, exponent = _tensor(base), _tensor(exponent)
    fits = (base.double() ** exponent.double()).abs() < 2.0**_MOST_BITS
    return _checked(fits & (exponent >= 0), base ** exponent.clamp(min=0))


def _tensor(number: Whole) -> torch.Tensor:
    if isinstance(number, torch.Tensor):
        return number
    return torch.scalar_tensor(number, dtype=torch.int64)


def _checked(holds: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """`result`, which whoever runs the step gets only where a condition holds."""
    line = said_line(innermost(sys._getframe(1), is_users))
    text = "the step needs a whole number of at most 63 bits here, and no exponent or shift below 0"
    return torch.ops.aten._functional_assert_async.msg(holds, at_line(line, text), result)
