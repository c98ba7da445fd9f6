"""Dynamic loss scaling: what a `torch.amp.GradScaler` says, for the archive."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch

from ..errors import E, ExportError
from .arguments import require


def check_scaler(scaler: Any) -> Optional[torch.amp.GradScaler]:
    """The scaler, or None where it is none or not enabled.

    Raises:
        ExportError: it is something else, or its numbers scale no loss.
    """
    if scaler is None:
        return None
    if not isinstance(scaler, torch.amp.GradScaler):
        raise ExportError(
            E.STEP_ARGUMENT,
            f"scaler is {type(scaler).__name__}; give a torch.amp.GradScaler, as "
            'torch.amp.GradScaler("cpu")',
        )
    if not scaler.is_enabled():
        return None
    for name, least in (("growth_factor", 1.0), ("backoff_factor", 0.0), ("scale", 0.0)):
        value = getattr(scaler, f"get_{name}")()
        holds = math.isfinite(value) and value > least
        require(holds, f"the scaler's {name}", f"a finite number above {least}", value)
    interval = scaler.get_growth_interval()
    require(interval >= 1, "the scaler's growth_interval", "1 or more", interval)
    return scaler


def describe_scaler(scaler: Optional[torch.amp.GradScaler]) -> Optional[dict[str, Any]]:
    """The archive's field."""
    if scaler is None:
        return None
    return {
        "growth_factor": float(scaler.get_growth_factor()),
        "backoff_factor": float(scaler.get_backoff_factor()),
        "growth_interval": int(scaler.get_growth_interval()),
    }


def scaler_states(scaler: Optional[torch.amp.GradScaler]) -> dict[str, torch.Tensor]:
    """The states that the scaler keeps from step to step, by name, as they are now."""
    if scaler is None:
        return {}
    tracker = scaler.state_dict()["_growth_tracker"]
    return {
        "fsdp.scaler.scale": torch.tensor(scaler.get_scale(), dtype=torch.float32),
        "fsdp.scaler.growth_tracker": torch.tensor(tracker, dtype=torch.int32),
        "fsdp.scaler.skipped_steps": torch.tensor(0.0, dtype=torch.float64),
    }
