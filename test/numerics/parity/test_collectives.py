"""Tests that collectives of the step's own code give on a plan's ranks what they give on PyTorch's."""

from __future__ import annotations

import math
import pathlib
from typing import Iterator

import pytest

from support import compare, reference, training
from support.fsdp2 import Pool
from support.training import Training, units

FILE = pathlib.Path(__file__).parent / "models" / "collectives.py"
FORMS = (
    "counted",
    "centered",
    "contrastive",
    "queued",
    "own_features",
    "twins",
    "largest",
    "summed",
    "scattered",
)


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[Pool]:
    """The step's collectives are among all workers of a pool. Two of them have one sum, in any order."""
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.mark.parametrize("mesh", [(1,), (2,), (2, 2)])
def test_a_synchronised_batch_norm_is_that_of_all_batches(
    mesh: tuple[int, ...], tmp_path: pathlib.Path
) -> None:
    """PyTorch's own has kernels for GPUs alone."""
    form, ranks = ("--form", "normalised"), math.prod(mesh)
    wanted = Training(FILE, (*form, "--norm", "SyncBatchNorm"), units(("body",)), mesh, steps=4)
    run = training.run(wanted, tmp_path)
    whole = (*form, "--norm", "BatchNorm1d", "--batch", str(4 * ranks))
    compare.check_close(run, reference.eager(reference.load_step(FILE, whole), 4))


@pytest.mark.parametrize("form", FORMS)
def test_as_fsdp2(form: str, two_ranks: Pool, tmp_path: pathlib.Path) -> None:
    wanted = Training(FILE, ("--form", form), units(("body",)))
    trained = two_ranks.start(wanted)
    run = training.run(wanted, tmp_path)
    compare.check_bits(run, trained())
