"""Tests that a run that PyTorch began goes on here with the same bits, and that what is missing is
named."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
import zipfile
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_run import (
    BEGIN,
    END,
    Single,
    SmallRun,
    command,
    contents,
    eager_losses,
    new_model,
    new_optimizer,
    refusal,
)
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict

from fsdp_mlir.archive.container import FORMAT_VERSION
from fsdp_mlir.checkpoint.command_line import main
from fsdp_mlir.checkpoint.reader import open_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

Trained = tuple[torch.nn.Module, torch.optim.Optimizer, list[float]]


@pytest.fixture(scope="module")
def trained() -> Trained:
    """Eager PyTorch's model and optimizer after ten steps, and their losses."""
    model = new_model()
    optimizer = new_optimizer(model)
    return model, optimizer, eager_losses(model, optimizer, 0, BEGIN)


def torch_save(folder: pathlib.Path, model: Any, optimizer: Any) -> pathlib.Path:
    state = {"model": model.state_dict(), "optim": optimizer.state_dict(), "epoch": 1}
    torch.save(state, folder / "saved.pt")
    return folder / "saved.pt"


def dcp_save(folder: pathlib.Path, model: Any, optimizer: Any) -> pathlib.Path:
    names, optim = get_state_dict(model, optimizer)
    state = {"app": {"model": names, "optimizer": optim}, "scheduler": {"last_epoch": 3}}
    dcp.save(state, checkpoint_id=folder / "saved", no_dist=True)
    return folder / "saved"


def safetensors_save(folder: pathlib.Path, model: Any, optimizer: Any) -> pathlib.Path:
    tensors = {**model.state_dict()}
    del tensors["head.weight"]
    (folder / "saved").mkdir()
    save_file(tensors, folder / "saved" / "model.safetensors")
    _, optim = get_state_dict(model, optimizer)
    flat = {f"{n}/{k}": value for n, own in optim["state"].items() for k, value in own.items()}
    save_file(flat, folder / "saved" / "optimizer.safetensors")
    return folder / "saved"


WRITERS = {"torch": torch_save, "dcp": dcp_save, "safetensors": safetensors_save}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_run_that_pytorch_began_goes_on(
    kind: str, trained: Trained, run: SmallRun, single: Single, tmp_path: pathlib.Path
) -> None:
    model, optimizer, losses = trained
    assert losses == single.losses[:BEGIN]
    source = WRITERS[kind](tmp_path, model, optimizer)
    flags = ("--archive", run.archive, "--weights", run.weights, "-o", tmp_path / "run")
    if kind == "safetensors":
        flags += ("--step", BEGIN)
    status, out, err = command("import", source, "--from", kind, *flags)
    assert (status, err) == (0, "")
    path = tmp_path / "run" / f"step-{BEGIN:08d}"
    assert out == f"{path}\n"
    assert command("verify", path)[0] == 0
    assert contents(path) == contents(single.at(BEGIN))
    resumed = run.train(
        1, END, "--checkpoint-dir", tmp_path / "run", "--resume", "auto", "--keep", 0
    )
    assert resumed.losses == single.losses[BEGIN:]
    assert [row["epoch"] for row in resumed.metrics] == [
        row["epoch"] for row in single.result.metrics if row["step"] > BEGIN
    ]
    for name, value in single.result.weights.items():
        assert torch.equal(resumed.weights[name], value), name
    # And back to eager PyTorch, from what that run left.
    out = tmp_path / "back.pt"
    archive = ("--archive", run.archive)
    assert command("export", tmp_path / "run", "--to", "torch", *archive, "-o", out)[0] == 0
    back = torch.load(out, weights_only=True)
    eager = new_model()
    again = new_optimizer(eager)
    eager.load_state_dict(back["model"])
    again.load_state_dict(back["optim"])
    going = eager_losses(eager, again, END, END + 3)
    assert going == run.train(1, END + 3, "--resume", tmp_path / "run").losses


@pytest.mark.parametrize(
    "kind, out, options",
    [
        ("torch", "out.pt", ()),
        ("dcp", "out", ()),
        ("safetensors", "out.safetensors", ("--with-optimizer",)),
        ("safetensors", "out", ("--with-optimizer", "--max-shard-size", "300 B")),
    ],
)
def test_what_is_exported_comes_back(
    kind: str,
    out: str,
    options: tuple[str, ...],
    run: SmallRun,
    single: Single,
    tmp_path: pathlib.Path,
) -> None:
    archive = ("--archive", run.archive)
    root, source = tmp_path / "run", tmp_path / out
    arguments = (single.at(END), "--to", kind, *archive, *options, "-o", source)
    assert command("export", *arguments)[0] == 0
    flags = ("--weights", single.at(BEGIN), "--ranks", 3, "--step", END)
    status, _, err = command("import", source, "--from", kind, *archive, *flags, "-o", root)
    assert (status, err) == (0, "")
    path = root / f"step-{END:08d}"
    assert contents(path) == contents(single.at(END))
    assert len(list(path.glob("rank-*.safetensors"))) == 3
    with open_checkpoint(path) as made:
        # 26 samples are two batches of four for each of three ranks.
        position = made.manifest.run
        assert (position.epoch, position.samples_in_epoch, position.samples) == (10, 0, 26)
    with open_checkpoint(single.at(END)) as written:
        assert position.seed == written.manifest.run.seed


class Wrong:
    """A source to be spoiled, and what its import says."""

    def __init__(self, run: SmallRun, trained: Trained, folder: pathlib.Path) -> None:
        self.run, self.folder = run, folder
        state = {"model": trained[0].state_dict(), "optim": trained[1].state_dict()}
        self.state: dict[str, Any] = copy.deepcopy(state)

    def refused(self, *flags: Any) -> str:
        torch.save(self.state, self.folder / "source.pt")
        flags += ("--archive", self.run.archive, "-o", self.folder / "run")
        line = refusal("import", self.folder / "source.pt", "--from", "torch", *flags)
        assert not list(self.folder.glob("run/step*"))
        return line


@pytest.fixture
def wrong(run: SmallRun, trained: Trained, tmp_path: pathlib.Path) -> Wrong:
    return Wrong(run, trained, tmp_path)


def test_what_no_state_dict_has_is_asked_for(wrong: Wrong) -> None:
    line = wrong.refused()
    assert "the source has no fsdp.buffer.scale" in line and "--weights STEP.safetensors" in line


@pytest.mark.provokes("FSDP-E0908")
def test_a_missing_tensor_is_named(wrong: Wrong) -> None:
    weights = ("--weights", wrong.run.weights)
    del wrong.state["model"]["mix.bias"]
    assert "the source has no mix.bias; give the whole state_dict()" in wrong.refused(*weights)


def test_missing_optimizer_state_is_named(wrong: Wrong) -> None:
    weights = ("--weights", wrong.run.weights)
    del wrong.state["optim"]["state"][0]["exp_avg"]
    line = wrong.refused(*weights)
    assert "no optimizer state mix.bias/exp_avg of the step's adamw" in line
    del wrong.state["optim"]
    assert "mix.bias/exp_avg, mix.bias/exp_avg_sq" in wrong.refused(*weights)


def test_counts_of_steps_must_agree(wrong: Wrong) -> None:
    weights = ("--weights", wrong.run.weights)
    assert "has done 10 steps, and --step says 7" in wrong.refused(*weights, "--step", 7)
    wrong.state["optim"]["state"][0]["step"] = torch.tensor(4.0)
    assert "some parameters 4 times and others 10 times" in wrong.refused(*weights)


@pytest.mark.parametrize(
    "count, said",
    [
        (torch.tensor(float("nan")), "nan"),
        (torch.tensor(12.5), "12.5"),
        (-5, "-5"),
        (2**70, str(2**70)),
        (torch.ones(3), "a Tensor"),
        ("abc", "a str"),
        (None, "a NoneType"),
    ],
)
def test_an_invalid_count_of_steps_is_refused(wrong: Wrong, count: Any, said: str) -> None:
    for state in wrong.state["optim"]["state"].values():
        state["step"] = count
    line = wrong.refused("--weights", wrong.run.weights)
    assert f".step is {said} in the source, and no count of steps" in line


def test_numbers_of_other_groups_are_refused(wrong: Wrong) -> None:
    weights = ("--weights", wrong.run.weights)
    groups = wrong.state["optim"]["param_groups"]
    groups[0]["param_names"] = ["mix.bias", "norm.weight", "norm.bias"]
    groups[1]["param_names"] = ["mix.weight", "embedding.weight"]
    line = wrong.refused(*weights)
    assert "'mix.weight', 'embedding.weight']] and the step's of" in line
    wrong.state["optim"]["param_groups"] = [{**groups[0], "params": [0, 1, 2, 3, 4]}]
    assert "groups of [5] and the step's of [3, 2]" in wrong.refused(*weights)


def test_a_parameter_of_another_shape_is_refused(wrong: Wrong) -> None:
    weights = ("--weights", wrong.run.weights)
    wrong.state["model"]["mix.bias"] = torch.zeros(5)
    assert "mix.bias has shape [5] in the source and [6] in the step" in wrong.refused(*weights)


@pytest.mark.parametrize(
    "weight, said",
    [
        (torch.eye(6).to_sparse(), "model.mix.weight is sparse in the source"),
        (torch.empty(6, 6, device="meta"), "model.mix.weight is without values, on meta"),
        (torch.eye(6).cfloat(), "mix.weight is complex64 in the source and float32 in the step"),
        (torch.eye(6).byte().view(torch.bits8), "mix.weight is bits8 in the source"),
    ],
    ids=["sparse", "meta", "complex", "bits"],
)
def test_a_weight_of_another_kind_of_tensor_is_refused(
    wrong: Wrong, weight: torch.Tensor, said: str
) -> None:
    wrong.state["model"]["mix.weight"] = weight
    assert said in wrong.refused("--weights", wrong.run.weights)


def test_two_states_of_one_name_are_told_apart(wrong: Wrong, single: Single) -> None:
    weights = ("--weights", wrong.run.weights)
    wrong.state = {"mine": wrong.state["model"], "optim": wrong.state["optim"]}
    wrong.state["other"] = {name: value + 1 for name, value in wrong.state["mine"].items()}
    assert "under each of mine, other; choose with --model-key" in wrong.refused(*weights)
    flags = (*weights, "--archive", wrong.run.archive, "-o", wrong.folder / "run")
    source = wrong.folder / "source.pt"
    flags += ("--model-key", "mine")
    assert command("import", source, "--from", "torch", *flags)[0] == 0
    assert contents(wrong.folder / "run") == contents(single.at(BEGIN))


@pytest.mark.parametrize(
    "flag, value",
    [
        ("--ranks", "0"),
        ("--ranks", str(2**20 + 1)),
        ("--ranks", "\u0663"),
        ("--step", str(10**18)),
        ("--seed", str(2**63)),
        ("--seed", "nan"),
    ],
)
def test_numbers_that_no_checkpoint_has_are_refused(
    flag: str, value: str, capsys: pytest.CaptureFixture
) -> None:
    arguments = ["import", "FILE", "--from", "torch", "--archive", "STEP.pt", "-o", "OUT"]
    with pytest.raises(SystemExit):
        main([*arguments, flag, value])
    assert f"argument {flag}: {value} is no number from" in capsys.readouterr().err


def test_data_of_another_step_are_refused(run: SmallRun, tmp_path: pathlib.Path) -> None:
    """As a file of weights is, or one that is no data set."""
    flags = ("--from", "torch", "--archive", run.archive, "-o", tmp_path / "run")
    others = {run.weights: "has no column x, y, which the step reads; give the run's data"}
    os.mkfifo(tmp_path / "pipe.json")
    others[tmp_path / "pipe.json"] = "cannot be read; give the run's data"
    for data, why in others.items():
        assert f"{data} {why}" in refusal("import", "FILE", *flags, "--data", data)


def test_casts_and_unknown_tensors_are_said(
    wrong: Wrong, run: SmallRun, tmp_path: pathlib.Path
) -> None:
    wrong.state["model"]["mix.bias"] = wrong.state["model"]["mix.bias"].double()
    wrong.state["model"]["extra"] = torch.zeros(2)
    torch.save(wrong.state, tmp_path / "source.pt")
    flags = ("--archive", run.archive, "--weights", run.weights, "-o", tmp_path / "run")
    status, _, err = command("import", tmp_path / "source.pt", "--from", "torch", *flags)
    assert status == 0
    assert "note: the source has model.extra, which the model has not" in err
    assert "note: mix.bias are cast to the step's dtype" in err


def test_a_damaged_folder_of_pytorchs_is_refused(
    trained: Trained, run: SmallRun, tmp_path: pathlib.Path
) -> None:
    source = dcp_save(tmp_path, *trained[:2])
    flags = ("--from", "dcp", "--archive", run.archive, "--weights", run.weights)
    flags += ("-o", tmp_path / "run")
    [file] = source.glob("*.distcp")
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert f"fails at {source}: EOFError" in refusal("import", source, *flags)
    file.unlink()
    assert "no such file" in refusal("import", source, *flags)
    os.mkfifo(file)
    assert "it is not a regular file" in refusal("import", source, *flags)
    file.unlink()
    file.write_bytes(whole)
    described = pickle.loads((source / ".metadata").read_bytes())
    described.state_dict_metadata["app.model.embedding.weight"].chunks.clear()
    (source / ".metadata").write_bytes(pickle.dumps(described))
    assert "has not all of app.model.embedding.weight" in refusal("import", source, *flags)
    assert not list(tmp_path.glob("run/step*"))


def test_an_archive_of_another_version_is_refused(run: SmallRun, tmp_path: pathlib.Path) -> None:
    """Whose fields may be others."""
    with zipfile.ZipFile(tmp_path / "step.pt", "w") as archive:
        archive.writestr("step/extra/fsdp.json", '{"optimizer": {}, "format_version": 1}')
    flags = ("--to", "torch", "--archive", tmp_path / "step.pt", "-o", tmp_path / "out")
    line = refusal("export", run.at(10), *flags)
    assert f"step.pt has format version 1, this program reads version {FORMAT_VERSION}" in line


@pytest.mark.parametrize("kind", ["torch", "dcp", "safetensors"])
def test_what_is_no_source_is_refused(kind: str, run: SmallRun, tmp_path: pathlib.Path) -> None:
    def refused(path: pathlib.Path) -> str:
        flags = ("--from", kind, "--archive", run.archive, "-o", tmp_path / "run")
        return refusal("import", path, *flags)

    assert "is not there" in refused(tmp_path / "none")
    file = tmp_path / f"file.{kind}"
    file.write_bytes(b"nonsense")
    (tmp_path / "folder").mkdir()
    refused(file)
    refused(tmp_path / "folder")
    (tmp_path / "folder" / ".metadata").write_bytes(b"nonsense")
    refused(tmp_path / "folder")
    if kind == "torch":
        torch.save([1, 2], file)
        assert "has no dictionary, but a list" in refused(file)
        cycle: dict[str, Any] = {}
        cycle["itself"] = cycle
        torch.save(cycle, file)
        assert "maximum recursion depth" in refused(file)
    pipe = tmp_path / f"pipe.{kind}"
    os.mkfifo(pipe)
    refused(pipe)
