"""Tests that Adafactor, which computes with norms of whole tensors as Python's numbers, and keeps
variances of rows and columns, is PyTorch's on any number of ranks, while each holds its share of the
state; and that a run may go on with other ranks."""

from __future__ import annotations

import pathlib

import pytest

from support import chain, compare, reference

FILE = pathlib.Path(__file__).parent / "models" / "adafactor.py"
STEPS, CUT = 8, 3
OPTIONS = {
    "1": (),
    "2": (),
    "3": (),
    "2x2": (),
    "3 flat": ("shard-layout=flat",),
    "2 scheduled": ("schedule=overlap bucket-cap-mib=0",),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("adafactor")
    chain.export(FILE, folder / "step.pt", ())
    return folder / "step.pt"


@pytest.mark.parametrize("name", OPTIONS)
def test_adafactor_is_pytorchs(name: str, archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    mesh = name.split()[0]
    ranks = eval(mesh.replace("x", "*"))
    options = " ".join((f"mesh={mesh}", *OPTIONS[name]))
    compiled = chain.lower(FILE, archive, tmp_path, (), options)
    # What is exchanged for updates leaves the other collectives their schedule.
    assert compiled.scheduled.read_text().count('fsdp.schedule = "overlap"') == 1
    flags = ("--checkpoint-dir", tmp_path / "kept", "--checkpoint-interval", CUT)
    run = chain.run_plan(compiled, ranks, steps=STEPS, extra=flags)
    step = reference.load_step(FILE, ())
    expected = (
        reference.eager(step, STEPS) if ranks == 1 else reference.averaged(step, ranks, STEPS)
    )
    if mesh in ("1", "2"):
        compare.check_bits(run, expected)
    compare.check_close(run, expected)
    resumed = ["--resume", tmp_path / "kept" / f"step-{CUT:08d}"]
    rest = chain.run_plan(compiled, ranks, steps=STEPS, extra=resumed)
    assert rest.losses == run.losses[CUT:]
    if name == "2x2":  # two parts of a matrix become four
        four = chain.lower(FILE, archive, tmp_path / "four", (), "mesh=4")
        rest = chain.run_plan(four, ranks, steps=STEPS, extra=resumed)
        assert rest.losses == pytest.approx(run.losses[CUT:], rel=1e-6)


def test_each_rank_holds_its_share_of_the_variances(
    archive: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for mesh, row, column in (
        (2, "[7, 1], Shard(0) 4,3, local [4, 1]", "[1, 48], Shard(1) 24,24, local [1, 24]"),
        (3, "[7, 1], Shard(0) 3,3,1, local [3, 1]", "[1, 48], Shard(1) 16,16,16, local [1, 16]"),
    ):
        compiled = chain.lower(FILE, archive, tmp_path / str(mesh), (), f"mesh={mesh}")
        command = [chain.binary("fsdp-translate"), "--plan-to-text", compiled.plan]
        text = chain.command(command).stdout
        assert f"optimizer 3.weight/row_var: float32 {row}" in text
        assert f"optimizer 3.weight/col_var: float32 {column}" in text
        # In a round each rank computes a matrix or a vector, of several shapes where there are too
        # few of one: one exchange has all that these need, another one all that they become.
        # The last one of the fifteen is alone on two ranks.
        assert text.count("all_to_all") == 2 * (15 // mesh) and " on shard 0" in text


def test_micro_batches_and_a_clipped_norm(tmp_path: pathlib.Path) -> None:
    argv = ("--accumulate", "2")
    chain.export(FILE, tmp_path / "step.pt", argv)
    compiled = chain.lower(FILE, tmp_path / "step.pt", tmp_path / "2", argv, "mesh=2")
    two = chain.run_plan(compiled, 2, steps=STEPS)
    compare.check_close(two, reference.averaged(reference.load_step(FILE, argv), 2, STEPS))

    argv = (*argv, "--clip", "0.5")
    chain.export(FILE, tmp_path / "clipped.pt", argv)
    compiled = chain.lower(FILE, tmp_path / "clipped.pt", tmp_path / "1", argv, "mesh=1")
    one = chain.run_plan(compiled, 1, steps=STEPS)
    compare.check_close(one, reference.eager(reference.load_step(FILE, argv), STEPS))
    compiled = chain.lower(FILE, tmp_path / "clipped.pt", tmp_path / "3", argv, "mesh=3")
    assert all(row["grad_norm"] > 0 for row in chain.run_plan(compiled, 3, steps=2).metrics)
