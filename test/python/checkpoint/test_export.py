"""Tests that PyTorch and Hugging Face's libraries open what is exported, and train on from it."""

from __future__ import annotations

import json
import pathlib
import re
import resource
import shutil
from typing import Any, Callable, Iterator

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from small_run import (
    BEGIN,
    END,
    Single,
    SmallRun,
    command,
    damage,
    eager_losses,
    new_model,
    new_optimizer,
    refusal,
)
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from fsdp_mlir.checkpoint import save
from fsdp_mlir.step.training_step import load_training_step
from support import chain, step_files

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


def export(run: SmallRun, kind: str, path: pathlib.Path, out: pathlib.Path, *flags: Any) -> None:
    archive = () if kind == "safetensors" else ("--archive", run.archive)
    status, said, err = command("export", path, "--to", kind, "-o", out, *archive, *flags)
    assert (status, said) == (0, f"{out}\n"), err


def by_torch_save(path: pathlib.Path, model: nn.Module, optimizer: Any) -> None:
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optim"])
    assert saved["step"] == BEGIN


def by_dcp(flat: bool) -> Callable:
    def load(path: pathlib.Path, model: nn.Module, optimizer: Any) -> None:
        options = StateDictOptions(flatten_optimizer_state_dict=flat)
        names = ("model", "optim")
        state = dict(zip(names, get_state_dict(model, optimizer, options=options)))
        dcp.load(state, checkpoint_id=path, no_dist=True)
        given = {f"{name}_state_dict": state[name] for name in names}
        set_state_dict(model, optimizer, **given, options=options)

    return load


SCHEDULED = """
import torch
from fsdp_mlir import TrainingStep


def training_step(argv):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x).square().mean(),
        optimizer=optimizer,
        lr_schedule=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        inputs={"x": torch.ones(2, 3)},
        steps=10,
    )
"""


@pytest.mark.parametrize(
    "kind, load",
    [("torch", by_torch_save), ("dcp", by_dcp(False)), ("dcp", by_dcp(True))],
    ids=["torch", "dcp", "dcp-flat"],
)
def test_eager_pytorch_trains_on(
    kind: str, load: Callable, run: SmallRun, single: Single, tmp_path: pathlib.Path
) -> None:
    path, losses = single.at(BEGIN), single.losses[BEGIN:]
    export(run, kind, path, tmp_path / "out")
    model = new_model()
    optimizer = new_optimizer(model)
    # All that is not loaded would show.
    with torch.no_grad():
        for tensor in (*model.parameters(), model.norm.running_mean):
            tensor.fill_(3)
    for group in optimizer.param_groups:
        group.update(lr=7.0, betas=(0.1, 0.2), weight_decay=0.7)
    load(tmp_path / "out", model, optimizer)
    assert [group["lr"] for group in optimizer.param_groups] == [3e-3, 0.01]
    assert eager_losses(model, optimizer, BEGIN, END) == losses


def test_torch_save_has_what_pytorch_saves(
    run: SmallRun, single: Single, tmp_path: pathlib.Path
) -> None:
    export(run, "torch", single.at(BEGIN), tmp_path / "out.pt")
    saved = torch.load(tmp_path / "out.pt", weights_only=True)
    model = new_model()
    optimizer = new_optimizer(model)
    eager_losses(model, optimizer, 0, 1)
    assert saved["model"].keys() == model.state_dict().keys()
    assert saved["model"]["head.weight"] is not None
    tied = [saved["model"][name].data_ptr() for name in ("head.weight", "embedding.weight")]
    assert tied[0] == tied[1]
    wanted = optimizer.state_dict()
    assert saved["optim"]["param_groups"] == wanted["param_groups"]
    described = [
        {
            number: {key: (value.dtype, value.shape) for key, value in state.items()}
            for number, state in tree["state"].items()
        }
        for tree in (saved["optim"], wanted)
    ]
    assert described[0] == described[1]


def test_the_learning_rate_is_the_next_steps(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(SCHEDULED)
    chain.export(file, tmp_path / "step.pt", [])
    step = load_training_step(file, [])
    for _ in range(3):
        step.optimizer.zero_grad()
        step.loss(step.model, **step.inputs).backward()
        step.optimizer.step()
        step.lr_schedule.step()
    save(tmp_path / "run", step.model, step.optimizer, 3)
    flags = ("--to", "torch", "--archive", tmp_path / "step.pt", "-o", tmp_path / "out.pt")
    assert command("export", tmp_path / "run", *flags)[0] == 0
    [group] = torch.load(tmp_path / "out.pt", weights_only=True)["optim"]["param_groups"]
    [wanted] = step.optimizer.param_groups
    assert group["lr"] == wanted["lr"] != wanted["initial_lr"]
    assert (group["momentum"], group["nesterov"]) == (0.9, True)


def test_safetensors_have_what_the_run_saved(run: SmallRun, tmp_path: pathlib.Path) -> None:
    export(run, "safetensors", run.at(12), tmp_path / "one.safetensors")
    export(run, "safetensors", run.at(12), tmp_path / "many", "--max-shard-size", "200B")
    with safe_open(tmp_path / "one.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt", "head.weight": "embedding.weight"}
    index = json.loads((tmp_path / "many" / "model.safetensors.index.json").read_text())
    files = {name: load_file(tmp_path / "many" / name) for name in index["weight_map"].values()}
    assert len(files) > 2 and {*files} | {"model.safetensors.index.json"} == {
        path.name for path in (tmp_path / "many").iterdir()
    }
    for found in (
        load_file(tmp_path / "one.safetensors"),
        {name: files[place][name] for name, place in index["weight_map"].items()},
    ):
        assert {*found} == {*run.result.weights} - {"head.weight"}
        for name, value in found.items():
            assert torch.equal(value, run.result.weights[name]), name


def test_hugging_face_opens_it(tmp_path: pathlib.Path) -> None:
    from transformers import GPT2LMHeadModel

    file = step_files.GENERALITY / "huggingface.py"
    step = load_training_step(file, ["--model", "gpt2"])
    save(tmp_path / "run", step.model, step.optimizer, 0)
    out = tmp_path / "out"
    flags = ("--to", "safetensors", "--max-shard-size", "20KB", "-o", out)
    status, _, err = command("export", tmp_path / "run", *flags)
    assert status == 0, err
    step.model.config.save_pretrained(out)
    opened, told = GPT2LMHeadModel.from_pretrained(out, output_loading_info=True)
    assert not any(told[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    wanted = step.model.state_dict()
    state = opened.state_dict()
    assert {*state} == {*wanted} and "lm_head.weight" in state
    for key, value in wanted.items():
        assert torch.equal(state[key], value), key


@pytest.mark.provokes("FSDP-E0909")
def test_what_is_missing_is_asked_for(run: SmallRun, tmp_path: pathlib.Path) -> None:
    def refused(*flags: Any) -> str:
        line = refusal("export", run.at(12), "-o", tmp_path / "out", *flags)
        assert not list(tmp_path.glob("out*"))
        return line

    assert "give --archive STEP.pt" in refused("--to", "dcp")
    assert "is not there" in refused("--to", "torch", "--archive", tmp_path / "none.pt")
    (tmp_path / "other.pt").write_bytes(b"?")
    assert "is no archive of a step" in refused("--to", "dcp", "--archive", tmp_path / "other.pt")
    (tmp_path / "step.py").write_text(SCHEDULED)
    chain.export(tmp_path / "step.py", tmp_path / "step.pt", [])
    line = refused("--to", "torch", "--archive", tmp_path / "step.pt")
    assert re.search("the checkpoint has .*, which the step of .*step.pt does not keep; give", line)
    status, _, _ = command(
        "export", run.at(12), "--to", "torch", "--no-optimizer", "-o", tmp_path / "model.pt"
    )
    assert status == 0
    assert torch.load(tmp_path / "model.pt", weights_only=True).keys() == {"model", "step"}


def test_a_damaged_checkpoint_is_exported_nowhere(run: SmallRun, tmp_path: pathlib.Path) -> None:
    copy = pathlib.Path(shutil.copytree(run.at(12), tmp_path / "step-00000012"))
    damage(copy, "mix.weight")
    for kind in ("safetensors", "dcp", "torch"):
        flags = ("--to", kind, "--archive", run.archive, "-o", tmp_path / "out")
        assert "mix.weight is not what was written" in refusal("export", copy, *flags)
        assert not list(tmp_path.glob("out*"))


@pytest.fixture
def no_room() -> Iterator[None]:
    """No file may have more than 700 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("kind", ["safetensors", "dcp", "torch", "reshard"])
def test_nothing_is_left_where_there_is_no_room(
    kind: str, run: SmallRun, no_room: None, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "out"
    flags = ("--to", kind, "--archive", run.archive, "-o", out)
    if kind == "reshard":
        line = refusal("reshard", run.at(12), "--ranks", 1, "-o", out)
    else:
        line = refusal("export", run.at(12), *flags)
    assert str(out) in line and line.endswith("[FSDP-E0005]")
    assert not list(tmp_path.rglob("*"))
