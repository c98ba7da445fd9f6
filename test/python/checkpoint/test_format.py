"""Tests that checkpoints are read as the runtime wrote them, whatever their cuts, and damage is
found and named."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
from typing import Any, Iterator

import pytest
import torch
from small_run import SmallRun, add_loader, command, damage, refusal

from fsdp_mlir.checkpoint.errors import CheckpointError, Damage
from fsdp_mlir.checkpoint.manifest import File, hash_of
from fsdp_mlir.checkpoint.manifest_text import read_manifest, write_manifest
from fsdp_mlir.checkpoint.reader import ShardFile, open_checkpoint
from support import chain

pytestmark = pytest.mark.quick


@pytest.fixture
def copy(run: SmallRun, tmp_path: pathlib.Path) -> pathlib.Path:
    """A checkpoint to be damaged, of ranks of which one has a loader with a state."""
    folder = pathlib.Path(shutil.copytree(run.at(12), tmp_path / "step-00000012"))
    add_loader(folder, 1, b"after batch 12")
    return folder


def test_a_tensor_is_what_the_run_saved(run: SmallRun) -> None:
    with open_checkpoint(run.checkpoints) as checkpoint:
        found = {
            name: checkpoint.tensor(tensor)
            for tensor in checkpoint.manifest.tensors
            if tensor.is_persistent
            for name in (tensor.name, *tensor.aliases)
        }
        # Cut by columns: its runs lie apart.
        assert {chunk.repeat for chunk in checkpoint.manifest.find("mix.weight").chunks} == {6}
    assert found.keys() == run.result.weights.keys()
    assert all(torch.equal(found[name], value) for name, value in run.result.weights.items())


def test_a_manifest_is_written_as_the_runtime_writes_it(run: SmallRun) -> None:
    text = (run.at(12) / "checkpoint.json").read_bytes()
    assert write_manifest(read_manifest(text, "it")) == text


def test_inspect_says_where_the_run_was(run: SmallRun) -> None:
    status, out, _ = command("inspect", run.checkpoints, "--json")
    found = json.loads(out)
    assert (status, found["step"], found["ranks"]) == (0, 12, 2)
    assert found["mesh"] == [{"name": "shard", "size": 2}]
    assert found["metrics"]["loss"] == run.result.losses[-1]
    parameters = sum(
        4 * p.numel() for n, p in run.result.weights.items() if "weight" in n or "bias" in n
    )
    tied = 4 * 11 * 6
    assert found["bytes"]["parameter"] == parameters - tied
    assert found["bytes"]["optimizer"] == 2 * (parameters - tied)
    tensors = {tensor["name"]: tensor for tensor in found["tensors"]}
    assert tensors["embedding.weight"]["aliases"] == ["head.weight"]
    assert tensors["norm.running_mean"]["per_rank"] and not tensors["mix.bias"]["per_rank"]
    status, out, _ = command("inspect", run.at(5))
    assert status == 0 and "5 done" in out and "norm.running_mean" in out


def test_verify_finds_a_whole_checkpoint_whole(run: SmallRun, copy: pathlib.Path) -> None:
    assert command("verify", run.checkpoints)[0] == 0
    assert command("verify", copy)[0] == 0


def test_the_module_runs_as_a_program(copy: pathlib.Path) -> None:
    damage(copy, "mix.weight")
    arguments = [sys.executable, "-m", "fsdp_mlir.checkpoint", "verify", copy]
    done = chain.command(arguments, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "mix.weight" in done.stderr


@pytest.mark.parametrize("arguments", [("checkpoint", "inspect"), ("explain", "FSDP-E0101")])
def test_an_output_without_room_is_one_error(arguments: tuple[str, str], run: SmallRun) -> None:
    program, word = arguments
    command = [sys.executable, "-m", f"fsdp_mlir.{program}", word]
    if program == "checkpoint":
        command.append(str(run.checkpoints))
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the output cannot be written: No space left on device [FSDP-E0005]\n"
    )


def test_numbers_that_json_lacks_are_text(copy: pathlib.Path) -> None:
    content = json.loads((copy / "checkpoint.json").read_bytes())
    del content["xxh3_64"]
    content["run"]["metrics"] = {"loss": "nan", "eval_loss": "inf", "other": "-inf"}
    content["run"]["epoch_losses"] = ["nan", 1.5]
    write_json(copy / "checkpoint.json", content)
    text = (copy / "checkpoint.json").read_bytes()
    again = json.loads(write_manifest(read_manifest(text, "it")))
    assert again["run"] == content["run"]
    assert json.loads(command("inspect", copy, "--json")[1])["metrics"] == content["run"]["metrics"]


def test_a_terminal_is_told_nothing_by_names(copy: pathlib.Path) -> None:
    content = json.loads((copy / "checkpoint.json").read_bytes())
    del content["xxh3_64"]
    content["run"]["metrics"] = {"\x1b[2Jloss": 1.5}
    write_json(copy / "checkpoint.json", content)
    assert "\\x1b[2Jloss 1.5" in command("inspect", copy)[1]


def test_every_flipped_bit_is_found(copy: pathlib.Path) -> None:
    generator = random.Random(3)
    files = {path: path.read_bytes() for path in sorted(copy.iterdir())}
    for _ in range(150):
        path = generator.choice(list(files))
        place = generator.randrange(8 * len(files[path]))
        flipped = bytearray(files[path])
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        status, _, err = command("verify", copy)
        assert status == 1 and path.name in err, f"bit {place} of {path.name}"
        path.write_bytes(files[path])


def test_verify_names_file_and_tensor(copy: pathlib.Path) -> None:
    damage(copy, "mix.weight/exp_avg")
    line = refusal("verify", copy)
    assert "rank-00001.safetensors is damaged: mix.weight/exp_avg is not what was written" in line
    with open_checkpoint(copy) as checkpoint, pytest.raises(Damage, match="mix.weight/exp_avg"):
        checkpoint.read(checkpoint.manifest.find("mix.weight/exp_avg"))


def test_a_shortened_or_missing_file_is_found(copy: pathlib.Path) -> None:
    shard, manifest = copy / "rank-00000.safetensors", copy / "checkpoint.json"
    whole = {path: path.read_bytes() for path in (shard, manifest)}
    for path, text in whole.items():
        for size in (0, 7, 100, len(text) - 1):
            path.write_bytes(text[:size])
            assert path.name in refusal("verify", copy)
        path.write_bytes(text)
    for path in (shard, copy / "rank-00001.loader"):
        away = path.rename(copy / "away")
        assert f"{path.name} cannot be read: No such file" in refusal("verify", copy)
        away.rename(path)


def write_json(path: pathlib.Path, content: dict[str, object]) -> None:
    """A manifest that somebody wrote so."""
    text = json.dumps(content)[1:].encode()
    path.write_bytes(b'{"xxh3_64":"' + hash_of(text).encode() + b'",' + text)


@pytest.mark.provokes("FSDP-E0905")
def test_what_is_of_another_kind_is_refused(copy: pathlib.Path) -> None:
    content = json.loads((copy / "checkpoint.json").read_bytes())
    del content["xxh3_64"]
    tensors = content["tensors"]
    unknown = [{**tensors[0], "dtype": "float4"}, *tensors[1:]]
    outside = [{**tensors[0], "chunks": [{**tensors[0]["chunks"][0], "begin": 10**9}]}]
    for changes, words in (
        ({"version": 2}, "it has version 2, this program reads version 1"),
        ({"format": "other"}, "another kind of file"),
        ({"tensors": unknown}, "unknown dtype float4"),
        ({"tensors": outside}, "lies outside of it"),
        ({"tensors": [{**tensors[0], "chunks": []}]}, "are not all of it"),
        ({"tensors": [{**tensors[0], "shape": [-6, -11]}]}, "has the shape [-6, -11]"),
        ({"files": []}, "lies outside of it"),
        ({"loaders": [{"rank": 2, "bytes": 1, "hash": "0"}]}, "a loader of rank 2"),
        ({"run": {}}, "it has no 'step'"),
        ({"run": {**content["run"], "step": -4}}, "step is -4"),
        ({"mesh": 3}, "cannot be read"),
        ({"mesh": [{"name": "shard", "size": 0}]}, "its mesh is of 0 ranks"),
        ({"tensors": [{**tensors[0], "per_rank": True, "chunks": []}]}, "of the ranks [], and"),
        ({"files": [{**content["files"][0], "name": "checkpoint.json"}]}, "is not in the check"),
    ):
        write_json(copy / "checkpoint.json", {**content, **changes})
        assert words in refusal("inspect", copy), changes


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The path of each field and member below `value`."""
    members = value.items() if isinstance(value, dict) else ()
    members = enumerate(value) if isinstance(value, list) else members
    for key, member in members:
        yield (*path, key)
        yield from places(member, (*path, key))


def test_fields_of_other_types_are_refused(run: SmallRun, copy: pathlib.Path) -> None:
    content = json.loads((copy / "checkpoint.json").read_bytes())
    del content["xxh3_64"]
    content["tensors"] = content["tensors"][:1] + content["tensors"][-1:]
    fields = list(places(content))
    generator = random.Random(5)
    for _ in range(150):
        spoiled = json.loads(json.dumps(content))
        *path, last = generator.choice(fields)
        value: Any = spoiled
        for key in path:
            value = value[key]
        value[last] = generator.choice([None, True, -1, 1.5, 2**63, "", "x", [], [1], {"a": 1}])
        write_json(copy / "checkpoint.json", spoiled)
        for name in ("inspect", "verify"):
            status, _, err = command(name, copy)
            assert (status == 0) == (not err), (path, last)


@pytest.mark.parametrize("rank", (2, -1))
def test_values_of_ranks_that_there_are_not_are_refused(copy: pathlib.Path, rank: int) -> None:
    content = json.loads((copy / "checkpoint.json").read_bytes())
    del content["xxh3_64"]
    [mean] = [tensor for tensor in content["tensors"] if tensor["name"] == "norm.running_mean"]
    mean["chunks"][1]["rank"] = rank
    write_json(copy / "checkpoint.json", content)
    assert "norm.running_mean has values of the ranks" in refusal("verify", copy)


@pytest.mark.parametrize("name", ("checkpoint.json", "rank-00001.safetensors"))
def test_what_is_no_regular_file_is_refused_at_once(copy: pathlib.Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    assert f"{name} cannot be read: it is not a regular file" in refusal("verify", copy)


def test_brackets_without_end_are_refused(copy: pathlib.Path) -> None:
    deep = b"[" * 99_999
    with pytest.raises(CheckpointError, match="nested too deep"):
        text = b'"a":' + deep
        read_manifest(b'{"xxh3_64":"' + hash_of(text).encode() + b'",' + text, "it")
    header = len(deep).to_bytes(8, "little") + deep
    (copy / "deep").write_bytes(header)
    described = File("deep", len(header), len(header), hash_of(header))
    with pytest.raises(Damage, match="nested too deep"):
        ShardFile(copy, described)


@pytest.mark.provokes("FSDP-E0901", "FSDP-E0902")
def test_places_without_a_checkpoint_are_refused(tmp_path: pathlib.Path) -> None:
    assert "is not there" in refusal("inspect", tmp_path / "none")
    assert "there is no checkpoint in" in refusal("verify", tmp_path)
    (tmp_path / "step-00000003").mkdir()
    assert "has no checkpoint.json" in refusal("verify", tmp_path / "step-00000003")
    assert "checkpoint.json cannot be read" in refusal("verify", tmp_path)


def test_the_newest_checkpoint_is_not_chosen_by_a_wrong_name(copy: pathlib.Path) -> None:
    """Not by another step's name, as a run that goes on has it; named, it is what it is."""
    other = copy.rename(copy.with_name("step-00000099"))
    said = "is the checkpoint of step 12 under another one's name; call it step-00000012 again"
    assert f"{other} {said}" in refusal("inspect", other.parent)
    assert command("inspect", other)[0] == 0
