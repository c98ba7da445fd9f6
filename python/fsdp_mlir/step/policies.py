"""FSDP2's policies, by its names and defaults: they are recorded, and read at export."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Optional

import torch

from ..dtypes import require_computed
from ..errors import E, ExportError
from ..options import checked_fields


def _require_flag(policy: Any, name: str) -> None:
    value = getattr(policy, name)
    if not isinstance(value, bool):
        raise ExportError(
            E.STEP_ARGUMENT,
            f"{name} of {type(policy).__name__} is {value!r}; it is either True or False",
        )


@checked_fields
@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a unit gathers, computes and reduces.

    Attributes:
        param_dtype: the whole parameters are gathered and computed with in it; None: their own.
        reduce_dtype: gradients are reduced in it; None: the dtype they are computed in.
        output_dtype: floating results of the unit's forward are cast to it; None: as they are.
        cast_forward_inputs: whether floating inputs of the forward are cast to `param_dtype`.

    Raises:
        ExportError: a dtype that is not a floating-point one that is computed with, or a flag
            that is none.
    """

    param_dtype: Optional[torch.dtype] = None
    reduce_dtype: Optional[torch.dtype] = None
    output_dtype: Optional[torch.dtype] = None
    cast_forward_inputs: bool = True

    def __post_init__(self) -> None:
        for name in ("param_dtype", "reduce_dtype", "output_dtype"):
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, torch.dtype) and value.is_floating_point
            ):
                raise ExportError(
                    E.STEP_ARGUMENT,
                    f"{name} of MixedPrecisionPolicy is {value!r}; give a floating-point dtype such "
                    "as torch.bfloat16, or None",
                )
            if value is not None:
                require_computed(value, f"{name} of MixedPrecisionPolicy")
        _require_flag(self, "cast_forward_inputs")

    @property
    def casts(self) -> dict[str, torch.dtype]:
        """The dtypes that are given, by field; empty where nothing is cast."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, torch.dtype)}


@checked_fields
@dataclass
class OffloadPolicy:
    """Nothing is offloaded: the default."""


@checked_fields
@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards, gradients and optimizer state live on the host.

    Attributes:
        pin_memory: whether their memory is pinned, so that copies overlap with compute.
    """

    pin_memory: bool = True

    def __post_init__(self) -> None:
        _require_flag(self, "pin_memory")
