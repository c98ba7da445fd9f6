"""Tests of what tells the computations of two steps apart (`capture/state/outcomes.py`)."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from fsdp_mlir.capture.graph.known_values import StandIns
from fsdp_mlir.capture.state.outcomes import Outcome, Reads
from fsdp_mlir.capture.state.watched_numbers import Watch


def test_memory_that_a_step_has_seen_is_not_used_again() -> None:
    """As that of `torch.tensor([])`, which Python drops at once: another tensor in its place would be
    taken for it."""
    constant = torch.tensor([])
    memory = StorageWeakRef(constant.untyped_storage())
    with StandIns(), Outcome({}, frozenset(), [], Watch(), Reads(0.5)) as outcome:
        lifted = torch.ops.aten.lift_fresh(constant)
        del constant
        assert outcome.digests([lifted])
        assert not memory.expired()
