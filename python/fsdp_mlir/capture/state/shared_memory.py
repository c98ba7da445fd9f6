"""Tensors that a step keeps in Python and leaves in the memory of another one."""

from __future__ import annotations

from typing import Mapping

import torch

from .outcomes import Outcome


def names_sharing(
    outcome: Outcome, kept: Mapping[str, torch.Tensor], states: Mapping[str, torch.Tensor]
) -> list[str]:
    """The names of two tensors in one memory, at least one of which is among `kept`; none: each is alone.
    A change of one would change the other, where a plan has a buffer for each."""
    if not kept:
        return []
    first = {outcome.memory(tensor): name for name, tensor in states.items()}
    for name, tensor in kept.items():
        other = first.setdefault(outcome.memory(tensor), name)
        if other != name:
            return [other, name]
    return []
