"""Complex tensors that archives, plans and files hold as the pairs of numbers that
`torch.view_as_real` shows: trained ones, which PyTorch's optimizers update as such, and those whose
dtype files lack."""

from __future__ import annotations

from typing import Mapping, Sequence

import torch

from ..dtypes import short_name
from ..errors import E, ExportError
from .policies import MixedPrecisionPolicy
from .training_step import TrainingStep


def is_held_in_pairs(tensor: torch.Tensor) -> bool:
    """Whether a parameter, a buffer or a constant is held in pairs. Others stay complex."""
    return tensor.is_complex() and (tensor.requires_grad or tensor.dtype == torch.complex128)


def as_held(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it is held: itself, or its pairs."""
    return as_pairs(tensor) if is_held_in_pairs(tensor) else tensor


def _is_trained(parameter: torch.Tensor) -> bool:
    return parameter.requires_grad and parameter.is_complex()


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor's memory as pairs: one more dimension, the last one, of size 2."""
    return torch.view_as_real(tensor.detach().resolve_conj())


def as_pairs_of(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """`tensor` as a state of this shape has it: where it is complex and lacks their dimension, its
    pairs, in the same memory."""
    is_bare = tensor.is_complex() and (*tensor.shape, 2) == tuple(shape)
    return as_pairs(tensor) if is_bare else tensor


def check_complex(step: TrainingStep, parameters: Mapping[str, torch.Tensor]) -> None:
    """Raises ExportError where a step asks for what complex gradients do not have, or what is
    another number of their pairs."""
    fqn = next((fqn for fqn, tensor in parameters.items() if _is_trained(tensor)), None)
    if fqn is None:
        return
    if step.clip_grad_value is not None:
        raise ExportError(
            E.DTYPE,
            f"clip_grad_value bounds numbers, and {fqn} is complex, which PyTorch does not clip by "
            "value; use clip_grad_norm",
        )
    if step.clip_grad_norm is not None and step.clip_grad_norm[1] != 2:
        raise ExportError(
            E.DTYPE,
            f"clip_grad_norm has the norm type {step.clip_grad_norm[1]:g}, and {fqn} is complex: a "
            "norm of absolute values is there for type 2 alone; use that one",
        )
    if step.scaler is not None:
        raise ExportError(
            E.DTYPE,
            f"a GradScaler does not unscale complex gradients, and {fqn} is complex; leave the "
            "scaler out, as bfloat16 needs none",
        )


def check_precision(fqn: str, parameter: torch.Tensor, policy: MixedPrecisionPolicy) -> None:
    """Raises ExportError where a unit's policy would cast a complex parameter to a real dtype."""
    for name in ("param_dtype", "reduce_dtype"):
        dtype = policy.casts.get(name)
        if _is_trained(parameter) and dtype is not None:
            raise ExportError(
                E.DTYPE,
                f"{fqn} is complex, and {name} of its unit is {short_name(dtype)}, "
                "which would drop the imaginary part; shard its module as a unit of its own, "
                "without that dtype",
            )
