"""Tests that optimizers whose update looks at whole matrices are PyTorch's on any number of ranks,
while each holds its share of the state and computes its share of the matrices; and that a run may go
on with other ranks.

Muon iterates on a matrix. Adafactor computes with norms of whole tensors as Python's numbers, and keeps
variances of rows and columns.
"""

from __future__ import annotations

import pathlib
import re

import pytest

from support import chain, compare, reference

FILE = pathlib.Path(__file__).parent / "models" / "matrices.py"
STEPS, CUT = 8, 3
OPTIONS = {
    "1": (),
    "2": (),
    "3": (),
    "2x2": (),
    "3 flat": ("shard-layout=flat",),
    "2 scheduled": ("schedule=overlap bucket-cap-mib=0",),
}


def compiled_step(folder: pathlib.Path, options: str, *argv: str) -> chain.Compiled:
    return chain.compile_step(FILE, folder, argv, options)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("optimizer", ["muon", "adafactor"])
def test_numbers_are_pytorchs(optimizer: str, name: str, tmp_path: pathlib.Path) -> None:
    mesh = name.split()[0]
    ranks = eval(mesh.replace("x", "*"))
    compiled = compiled_step(tmp_path, " ".join((f"mesh={mesh}", *OPTIONS[name])), optimizer)
    # What is exchanged for updates leaves the other collectives their schedule.
    assert compiled.scheduled.read_text().count('fsdp.schedule = "overlap"') == 1
    flags = ("--checkpoint-dir", tmp_path / "kept", "--checkpoint-interval", CUT)
    run = chain.run_plan(compiled, ranks, steps=STEPS, extra=flags)
    step = reference.load_step(FILE, (optimizer,))
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
        four = compiled_step(tmp_path / "four", "mesh=4", optimizer)
        rest = chain.run_plan(four, ranks, steps=STEPS, extra=resumed)
        assert rest.losses == pytest.approx(run.losses[CUT:], rel=1e-6)


@pytest.mark.parametrize("layout", ["dim0", "flat"])
def test_muons_momentum_is_split_by_rows(layout: str, tmp_path: pathlib.Path) -> None:
    text = chain.plan_text(compiled_step(tmp_path, f"mesh=3 shard-layout={layout}", "muon").plan)
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


def test_muons_matrices_of_several_shapes(tmp_path: pathlib.Path) -> None:
    # The plan whose bits are PyTorch's above: of 7x7 and 8x7, and of 7x13 and 9x8, each rank has one.
    text = chain.plan_text(compiled_step(tmp_path, "mesh=2", "muon").plan)
    norms = re.findall(r"aten::linalg_vector_norm\(.*\)( on shard [01])?\n", text)
    assert sorted(norms) == ["", ""] + 2 * [" on shard 0"] + 2 * [" on shard 1"]


@pytest.mark.parametrize(
    "mesh, row, column",
    [
        (2, "[7, 1], Shard(0) 4,3, local [4, 1]", "[1, 48], Shard(1) 24,24, local [1, 24]"),
        (3, "[7, 1], Shard(0) 3,3,1, local [3, 1]", "[1, 48], Shard(1) 16,16,16, local [1, 16]"),
    ],
)
def test_each_rank_has_its_share_of_adafactors_variances(
    mesh: int, row: str, column: str, tmp_path: pathlib.Path
) -> None:
    text = chain.plan_text(compiled_step(tmp_path, f"mesh={mesh}", "adafactor").plan)
    assert f"optimizer 3.weight/row_var: float32 {row}" in text
    assert f"optimizer 3.weight/col_var: float32 {column}" in text
    # In a round each rank computes a matrix or a vector, of several shapes where there are too few of
    # one: one exchange has all that these need, another one all that they become. The last one of the
    # fifteen is alone on two ranks.
    assert text.count("all_to_all") == 2 * (15 // mesh) and " on shard 0" in text


@pytest.mark.parametrize("optimizer", ["muon", "adafactor"])
def test_micro_batches_and_a_clipped_norm(optimizer: str, tmp_path: pathlib.Path) -> None:
    argv = (optimizer, "--accumulate", "2")
    two = chain.run_plan(compiled_step(tmp_path / "2", "mesh=2", *argv), 2, steps=STEPS)
    compare.check_close(two, reference.averaged(reference.load_step(FILE, argv), 2, STEPS))

    argv = (*argv, "--clip", "0.5")
    one = chain.run_plan(compiled_step(tmp_path / "1", "mesh=1", *argv), 1, steps=STEPS)
    compare.check_close(one, reference.eager(reference.load_step(FILE, argv), STEPS))
    three = chain.run_plan(compiled_step(tmp_path / "3", "mesh=3", *argv), 3, steps=2)
    assert all(row["grad_norm"] > 0 for row in three.metrics)
