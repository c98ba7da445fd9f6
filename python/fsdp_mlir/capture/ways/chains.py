"""Where changes replace something along chains of gradients, so that they can be put together.

A layer that a way leaves out hands its gradient to the layer before: the call that gives this layer's
gradient is replaced by the one that gives the next layer's. A gradient goes through several calls, of
which each may be the one. Changes of neighbouring layers are to take the same one of each layer, else one
would not see what the other has replaced.
"""

from __future__ import annotations

from typing import Optional, Sequence

from .changes import Change
from .shared_values import Value


def settle(changes: Sequence[Change]) -> None:
    """Has each change replace one call of each of its chains: one that other changes go on from, as far
    from the chain's beginning as that allows."""
    chains = [(change, chain) for change in changes for chain in change.chains]
    calls: dict[Value, list[tuple[int, int]]] = {}
    for number, (_, chain) in enumerate(chains):
        for place, link in enumerate(chain):
            calls.setdefault(link.value, []).append((number, place))

    def together(number: int, place: int) -> Optional[dict[int, int]]:
        """The places of all chains that follow from the one of a chain; None: not those that are chosen."""
        found: dict[int, int] = {}
        waiting = [(number, place)]
        while waiting:
            number, place = waiting.pop()
            known = found.get(number, chosen.get(number))
            if known is None:
                found[number] = place
                waiting += calls.get(chains[number][1][place].first, [])
            elif known != place:
                return None
        return found

    chosen: dict[int, int] = {}
    for number, (change, chain) in enumerate(chains):
        if number not in chosen:
            choices = (together(number, place) for place in reversed(range(len(chain))))
            chosen |= next((c for c in choices if c is not None), {number: len(chain) - 1})
        change.replace_at(chain, chosen[number])
