"""Tests that Muon, whose update looks at whole matrices, is PyTorch's on any number of ranks, while
each holds its rows of the momentum and computes its share of the matrices; and that a run may go on
with other ranks."""

from __future__ import annotations

import pathlib
import re

import pytest

from support import chain, compare, reference

FILE = pathlib.Path(__file__).parent / "models" / "muon.py"
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
    folder = tmp_path_factory.mktemp("muon")
    chain.export(FILE, folder / "step.pt", ())
    return folder / "step.pt"


@pytest.mark.parametrize("name", OPTIONS)
def test_muon_is_pytorchs(name: str, archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
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


def test_the_momentum_is_split_by_rows(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for layout in ("dim0", "flat"):
        options = f"mesh=3 shard-layout={layout}"
        compiled = chain.lower(FILE, archive, tmp_path / layout, (), options)
        command = [chain.binary("fsdp-translate"), "--plan-to-text", compiled.plan]
        text = chain.command(command).stdout
        for name, columns in (("0", 13), ("4", 7)):
            state = f"optimizer {name}.weight/momentum_buffer: float32 [7, {columns}], "
            assert f"{state}Shard(0) 3,3,1, local [3, {columns}]" in text
        # Rows in bfloat16 for the rank that owns the matrix, in multiples of 64 bytes, and back.
        # Three of one shape make a round. The others share two: both of 8x8 and the one of 8x7,
        # then 7x13, whose rows are the longest, and 9x8.
        for unit, size in (("5", 64), ("9", 64), ("10", 128)):
            exchange = f" = all_to_all .* over shard, {size} uint8, unit '{unit}'"
            assert len(re.findall(exchange, text)) == 2
        assert text.count("all_to_all") == 6 and "uint8, unit '0', update" not in text


def test_ranks_compute_matrices_of_several_shapes(
    archive: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    # The plan whose bits are PyTorch's above: of 7x7 and 8x7, and of 7x13 and 9x8, each rank has one.
    compiled = chain.lower(FILE, archive, tmp_path, (), "mesh=2")
    text = chain.command([chain.binary("fsdp-translate"), "--plan-to-text", compiled.plan]).stdout
    norms = re.findall(r"aten::linalg_vector_norm\(.*\)( on shard [01])?\n", text)
    assert sorted(norms) == ["", ""] + 2 * [" on shard 0"] + 2 * [" on shard 1"]


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
