"""Names the first operator of eager PyTorch whose bits the run of a plan does not have.

    PYTHONPATH=python:test python -m support.first_difference STEP.py [ARGUMENTS...]

The step is compiled for one rank, and runs once by the plan and once by eager PyTorch. Where a
loss or what was trained differs, the first of eager's operators on the way there is told whose
operands the plan has and whose result it has not, with the calls of the same operator in the plan:
they say how the operands lay in memory there. Says nothing of operators that compute nothing, and
takes a matrix for there where all its rows are: a plan multiplies at once what eager multiplies
part by part, or the other way round.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import itertools
import multiprocessing
import os
import pathlib
import sys
import tempfile
from typing import Any, Iterable, Iterator, Optional, Sequence

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import fsdp_mlir
from support import chain, reference
from support.recorded_calls import Call, Calls, Value


@dataclasses.dataclass(frozen=True)
class Training:
    """Calls of all ranks, each rank's losses, and what was trained."""

    calls: list[Call]
    losses: list[list[float]]
    state: dict[str, Value]


def first_difference(
    eager: Sequence[Call], planned: Sequence[Call], ends: Iterable[Value]
) -> Optional[Call]:
    """The first call of eager's on the way to one of these values, which the plan has not, whose
    operands the plan has and whose result it has not."""
    had = _had(eager, planned)
    missing = {end.digest for end in ends} - had
    first = None
    for call in reversed(eager):
        if missing.isdisjoint(value.digest for value in call.results):
            continue
        unknown = {value.digest for value in call.operands} - had
        missing |= unknown
        if not unknown:
            first = call
    return first


def _had(eager: Sequence[Call], planned: Sequence[Call]) -> set[bytes]:
    """Of eager's values those that the plan has, or that hold the same numbers at other places."""
    known: set[bytes] = set()
    for value in _values(planned):
        known |= {value.digest} | value.rows
    had = {
        value.digest
        for value in _values(eager)
        if not value.rounds or value.digest in known or (value.rows and value.rows <= known)
    }
    for call in eager:
        if call.moves and had.issuperset(value.digest for value in call.operands):
            had.update(value.digest for value in call.results)
    return had


def _values(calls: Sequence[Call]) -> Iterator[Value]:
    for call in calls:
        yield from call.operands
        yield from call.results


def calls_like(call: Call, others: Sequence[Call]) -> Iterator[Call]:
    """Of the same operator, with some of the operands."""
    bits = {value.digest for value in call.operands}
    for other in others:
        if other.name == call.name and bits & {value.digest for value in other.operands}:
            yield other


def by_eager(step: Any, world: int, steps: int) -> Training:
    with Calls() as mode:
        trained = reference.trained(step, world, steps)
    ranks = [list(losses) for losses in zip(*trained.losses)]
    return Training(mode.calls, ranks, _state(trained.state))


def by_plan(
    step: Any, plan: pathlib.Path, weights: pathlib.Path, world: int, steps: int
) -> Training:
    """Each rank runs in a process of its own, which PyTorch lets look at its operators."""
    feeds = [_feed(step, rank, world, steps) for rank in range(world)]
    with tempfile.TemporaryDirectory() as folder:
        run = functools.partial(_run_rank, plan, weights, f"file://{folder}/meeting", world)
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(world, mp_context=context) as ranks:
            trained = list(ranks.map(run, range(world), feeds))
    calls = [call for rank in trained for call in rank.calls]
    return Training(calls, [rank.losses[0] for rank in trained], trained[0].state)


def _feed(step: Any, rank: int, world: int, steps: int) -> list[list[reference.Tensors]]:
    batches = reference.batches(step, rank, world)
    return [list(itertools.islice(batches, step.accumulate)) for _ in range(steps)]


def _run_rank(
    plan: pathlib.Path,
    weights: pathlib.Path,
    meeting: str,
    world: int,
    rank: int,
    feed: list[list[reference.Tensors]],
) -> Training:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    run = fsdp_mlir.load(plan, weights=weights, rng="sequential", rendezvous=meeting)
    with run:
        with Calls() as mode:
            losses = [float(run(batches if len(batches) > 1 else batches[0])) for batches in feed]
        return Training(mode.calls, [losses], _state(run.state_dict()))


def _state(tensors: reference.Tensors) -> dict[str, Value]:
    """What is complex is held in pairs by a plan."""
    return {
        name: Value.of(torch.view_as_real(value) if value.is_complex() else value)
        for name, value in tensors.items()
    }


def differing(eager: Training, planned: Training) -> list[Value]:
    """What eager trained, and the losses, of which the plan has other bits."""
    ends = [
        value
        for name, value in eager.state.items()
        if name not in planned.state or planned.state[name].digest != value.digest
    ]
    losses = zip(itertools.chain(*eager.losses), itertools.chain(*planned.losses), strict=True)
    for loss, other in losses:
        # Their bits in float32, which they are computed in.
        value, found = (Value.of(torch.tensor(number)) for number in (loss, other))
        if value.digest != found.digest:
            ends.append(value)
    return ends


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    step_file, argv = pathlib.Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        compiled = chain.compile_step(step_file, pathlib.Path(folder), argv, pipeline="mesh=1")
        step = reference.load_step(step_file, argv)
        weights = compiled.archive.with_suffix(".safetensors")
        planned = by_plan(step, compiled.plan, weights, world=1, steps=1)
        eager = by_eager(step, world=1, steps=1)
    ends = differing(eager, planned)
    call = first_difference(eager.calls, planned.calls, ends)
    if call is None:
        print(
            f"{len(ends)} results differ, and none of {len(eager.calls)} calls is where it begins"
        )
        return 1 if ends else 0
    print(f"eager:    {call}")
    for other in calls_like(call, planned.calls):
        print(f"the plan: {other}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
