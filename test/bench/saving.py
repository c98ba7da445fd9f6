"""What hashes cost a rank's save, on the disk that has the bench's folder."""

from __future__ import annotations

import json
import pathlib
import statistics
from typing import Any, Callable

from bench.turn import Failed, environment
from support import chain

# A rank's state of `mid` with AdamW, where two ranks share it.
MIB, ROUNDS = 192, 12
GOAL = 1.05


def measure(
    folder: pathlib.Path, say: Callable[[str], None], mib: int = MIB, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Medians of saves with hashes and without, in turns: wall and processor milliseconds, and
    the median of the rounds' ratios of wall times.

    Raises:
        Failed: the program is not there, or it failed.
    """
    say(f"saving: {mib} MiB, {rounds} rounds with hashes and without")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        program = chain.binary("saving_bench")
        done = chain.command([program, folder, str(mib), str(rounds)], env=environment())
    except chain.ChainError as error:
        raise Failed(f"saving_bench: {error}") from error
    found = json.loads(done.stdout)
    ratios = [a / b for a, b in zip(found["hashed_ms"], found["plain_ms"])]
    kinds = ("hashed_ms", "plain_ms", "hashed_cpu_ms", "plain_cpu_ms")
    return {
        "bytes": found["bytes"],
        **{kind: statistics.median(found[kind]) for kind in kinds},
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def text(figures: dict[str, Any]) -> str:
    verdict = "met" if figures["ratio"] <= GOAL else "NOT met"
    return (
        f"\nsaving {figures['bytes'] >> 20} MiB: {figures['hashed_ms']:.1f} ms with hashes, "
        f"{figures['plain_ms']:.1f} ms without; {figures['ratio']:.3f} of it (≤ {GOAL}, {verdict}); "
        f"of processors {figures['hashed_cpu_ms']:.1f} and {figures['plain_cpu_ms']:.1f} ms"
    )
