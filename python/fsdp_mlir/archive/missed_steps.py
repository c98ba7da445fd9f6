"""Parameters that some steps give no gradient, as values decide that: who counts these steps.

PyTorch's optimizers leave alone what has no gradient (`p.grad is None`): it keeps its value, its states
and its count of updates. So each set of parameters that lack their gradients together has a buffer that
counts the steps without, and rules of its own, which count the others.
"""

from __future__ import annotations

from typing import Collection, Optional, Sequence

import torch
from torch import fx

from ..capture.graph.program import Program, Result

PREFIX = "fsdp.missed."
_ROLE = "has_gradient"


def name_missed(programs: Sequence[Program], held: Collection[str]) -> dict[str, str]:
    """The buffer that counts, by parameter, of those that an optimizer holds; none where each step
    gives a gradient. The programs then say of each buffer, not of each parameter, whether there are
    gradients."""
    said: dict[str, list[Optional[fx.Node]]] = {}
    for number, program in enumerate(programs):
        for result in program.results:
            if result.role == _ROLE and result.fqn in held:
                said.setdefault(result.fqn, [None] * len(programs))[number] = result.node
    names: dict[tuple[Optional[fx.Node], ...], str] = {}
    missed = {
        fqn: names.setdefault(tuple(nodes), f"{PREFIX}{len(names)}") for fqn, nodes in said.items()
    }
    for program in programs:
        own = [result for result in program.results if result.role == _ROLE]
        of_buffers = {missed[r.fqn]: r.node for r in own if r.fqn in missed}
        program.results = [result for result in program.results if result not in own]
        program.results += [Result(node, _ROLE, name) for name, node in of_buffers.items()]
    return missed


def first_count() -> torch.Tensor:
    """What such a buffer begins with."""
    return torch.tensor(0.0, dtype=torch.float64)
