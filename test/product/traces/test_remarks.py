"""Tests that what the compiler's remarks claim is so in the plan that comes out.

The derivations are in claims_of_*.py; none of them reads a figure from the remark that it checks.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from product.docs import examples
from product.traces import claims_of_schedule, claims_of_sharding, claims_of_steps
from product.traces.claims import CLAIMS, Claim, Deciding
from support import chain, remarks

# To import them fills CLAIMS.
DERIVATIONS = (claims_of_schedule, claims_of_sharding, claims_of_steps)


@pytest.fixture(scope="module")
def deciding(tmp_path_factory: pytest.TempPathFactory) -> Deciding:
    return Deciding(tmp_path_factory.mktemp)


def test_every_kind_of_remark_has_one_derivation() -> None:
    derived = Counter(kind for claim in CLAIMS for kind in claim.kinds)
    assert set(derived) == set(remarks.decisions())
    assert {kind: n for kind, n in derived.items() if n > 1} == {}


def test_all_remarks_are_of_the_registry() -> None:
    """Nothing but Remarks.cpp emits one."""
    emitting = [
        path.name
        for path in (chain.ROOT / "lib").rglob("*.cpp")
        if re.search(r"\bremark::", path.read_text())
    ]
    assert emitting == ["Remarks.cpp"]
    assert {kind.category for kind in remarks.decisions().values()} <= set(examples.passes())


@pytest.mark.quick
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: "+".join(claim.kinds))
def test_a_remarks_claim_follows_from_the_plan(claim: Claim, deciding: Deciding) -> None:
    claim.derive(deciding(claim.case) if claim.case else deciding)
