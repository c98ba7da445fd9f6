"""What no order of a step's transfers can beat, on a wire where they take as long as compute."""

from __future__ import annotations

from bench.models import Model


def least(model: Model) -> float:
    """The least step ÷ compute of a GPT whose units are gathered and reduced whole.

    Gathers and reductions have a wire each, and one follows the other on it. A unit is computed
    when its gather is through, and reduced when its backward is. So, for shares `compute` and
    `moved` of the units in the order of their use, forward takes at least
    max over k of moved[..k] + compute[k..], and backward as much from its own end. Compute is that
    of matrix products: updates, which may fill the wait for the last reduction, are left out.
    """
    flags = dict(zip(model.flags[::2], model.flags[1::2]))
    layers, width, length, vocabulary = (
        int(flags[f"--{name}"]) for name in ("layers", "width", "length", "vocab")
    )
    head = width * vocabulary
    block = 12 * width * width
    # Parameters; operations of one token: 2 for each weight, and attention's.
    units = [(head + width * length, 0)]
    units += [(block, 2 * block + 4 * length * width)] * layers
    units += [(head, 2 * head)]
    # Backward gathers the blocks again and computes twice as much.
    all_moved = 2 * sum(p for p, _ in units) + layers * block
    all_compute = 3 * sum(c for _, c in units)
    moved = [p / all_moved for p, _ in units]
    compute = [c / all_compute for _, c in units]

    def region(moved: list[float], compute: list[float]) -> float:
        return max(sum(moved[: k + 1]) + sum(compute[k:]) for k in range(len(moved)))

    return region(moved, compute) + region(moved, [2 * c for c in compute])
