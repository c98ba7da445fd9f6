"""Tests that what the compiler's remarks claim is so in the plan that comes out.

The derivations are in claims_of_*.py; none of them reads a figure from the remark that it checks.
"""

from __future__ import annotations

from collections import Counter

import pytest

from product.traces import claims_of_schedule, claims_of_sharding, claims_of_steps
from product.traces.claims import CLAIMS, Claim, Deciding, kinds_in_source

# To import them fills CLAIMS.
DERIVATIONS = (claims_of_schedule, claims_of_sharding, claims_of_steps)


@pytest.fixture(scope="module")
def deciding(tmp_path_factory: pytest.TempPathFactory) -> Deciding:
    return Deciding(tmp_path_factory.mktemp)


def test_every_kind_of_remark_has_one_derivation() -> None:
    derived = Counter(kind for claim in CLAIMS for kind in claim.kinds)
    assert set(derived) == kinds_in_source()
    assert {kind: n for kind, n in derived.items() if n > 1} == {}


@pytest.mark.quick
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: "+".join(claim.kinds))
def test_the_claim_is_so(claim: Claim, deciding: Deciding) -> None:
    claim.derive(deciding(claim.case) if claim.case else deciding)
