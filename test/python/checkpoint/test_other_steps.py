"""Tests that checkpoints of steps with a loss scaler, with parameters that no loss reaches, and with
optimizer state of shapes of its own, go to PyTorch and come back."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from small_run import command, contents, refusal
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict

from fsdp_mlir.checkpoint import CheckpointError, load, save
from fsdp_mlir.checkpoint.reader import open_checkpoint
from fsdp_mlir.checkpoint.step_archive import Step
from fsdp_mlir.step.training_step import load_training_step
from support import chain, reference, step_files

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
BLOCKS = step_files.PARITY / "blocks.py"
MATRICES = step_files.PARITY / "matrices.py"
ZOO = step_files.GENERALITY / "zoo.py"
# In float32 a gradient of more than 16 is infinite with this scale.
SCALE = ("--scale", str(2.0**124), "--loss-factor", "64")
BEGIN, END = 8, 14


def begun(step: Any, steps: int) -> tuple[dict[str, Any], list[float]]:
    """What a script with a scaler saves after so many steps, and its losses."""
    losses = []
    for _, batch in zip(range(steps), reference.batches(step, 0, 1)):
        step.optimizer.zero_grad()
        loss = step.loss(step.model, **batch)
        step.scaler.scale(loss).backward()
        step.scaler.step(step.optimizer)
        step.scaler.update()
        losses.append(loss.item())
    parts = {"model": step.model, "optimizer": step.optimizer, "scaler": step.scaler}
    return {key: part.state_dict() for key, part in parts.items()} | {"step": steps}, losses


def test_a_scaler_goes_on(tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(BLOCKS, tmp_path, SCALE, "mesh=1")
    flags = ("--checkpoint-dir", tmp_path / "here", "--checkpoint-interval", BEGIN)
    run = chain.run_plan(compiled, 1, steps=END, extra=flags)
    state, losses = begun(load_training_step(BLOCKS, list(SCALE)), BEGIN)
    assert losses == run.losses[:BEGIN]
    taken = {int(own["step"]) for own in state["optimizer"]["state"].values()}
    assert taken and max(taken) < BEGIN, "no step was skipped"

    torch.save(state, tmp_path / "saved.pt")
    archive = ("--archive", compiled.archive)
    flags = ("--from", "torch", *archive, "-o", tmp_path / "made")
    status, _, err = command("import", tmp_path / "saved.pt", *flags)
    assert (status, err) == (0, "")
    written = tmp_path / "here" / f"step-{BEGIN:08d}"
    assert contents(tmp_path / "made") == contents(written)
    resumed = chain.run_plan(compiled, 1, steps=END, extra=["--resume", tmp_path / "made"])
    assert resumed.losses == run.losses[BEGIN:]

    assert command("export", written, "--to", "torch", *archive, "-o", tmp_path / "back.pt")[0] == 0
    back = torch.load(tmp_path / "back.pt", weights_only=True)
    assert back["scaler"] == state["scaler"]
    assert back["optim"]["param_groups"] == state["optimizer"]["param_groups"]
    counts = [
        {n: own["step"] for n, own in o["state"].items()}
        for o in (back["optim"], state["optimizer"])
    ]
    assert counts[0] == counts[1]

    del state["scaler"]
    torch.save(state, tmp_path / "saved.pt")
    flags = ("--from", "torch", *archive, "-o", tmp_path / "without")
    assert "fsdp.scaler.scale" in refusal("import", tmp_path / "saved.pt", *flags)


def test_what_no_loss_reaches_has_its_first_state(tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(ZOO, tmp_path, ["--model", "unreached"], "mesh=2")
    chain.run_plan(compiled, 2, steps=2, extra=["--checkpoint-dir", tmp_path / "run"])
    archive = ("--archive", compiled.archive)
    with open_checkpoint(tmp_path / "run") as checkpoint:
        stored = {tensor.name for tensor in checkpoint.manifest.tensors}
        assert "unused.weight" in stored and "unused.weight/exp_avg" not in stored
        assert stored == {tensor.name for tensor in Step(compiled.archive).tensors()}
    for kind in ("torch", "dcp"):
        out = tmp_path / kind
        assert command("export", tmp_path / "run", "--to", kind, *archive, "-o", out)[0] == 0
        made = tmp_path / f"{kind}-made"
        flags = ("--from", kind, *archive, "--weights", tmp_path / "run", "-o", made)
        assert command("import", out, *flags)[0] == 0
        assert contents(made) == contents(tmp_path / "run")
    step = load_training_step(ZOO, ["--model", "unreached"])
    # get_state_dict() makes the state of all parameters, and each must be there.
    names = ("model", "optim")
    state = dict(zip(names, get_state_dict(step.model, step.optimizer)))
    dcp.load(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    unused = state["optim"]["state"]["unused.weight"]
    assert unused["step"] == 0 and not unused["exp_avg"].any()
    assert state["optim"]["state"]["used.weight"]["step"] == 2


def test_states_of_other_shapes_than_their_parameters(tmp_path: pathlib.Path) -> None:
    compiled = chain.compile_step(MATRICES, tmp_path, ("adafactor",), "mesh=2")
    flags = ("--checkpoint-dir", tmp_path / "run", "--checkpoint-interval", 2)
    run = chain.run_plan(compiled, 2, steps=4, extra=flags)
    two = tmp_path / "run" / "step-00000002"
    archive = ("--archive", compiled.archive)
    for kind in ("torch", "dcp"):
        out, made = tmp_path / kind, tmp_path / f"{kind}-made"
        assert command("export", two, "--to", kind, *archive, "-o", out)[0] == 0
        assert command("import", out, "--from", kind, *archive, "--ranks", "2", "-o", made)[0] == 0
        assert contents(made) == contents(two)

    step = load_training_step(MATRICES, ["adafactor"])
    assert load(two, step.model, step.optimizer) == 2
    held = step.optimizer.state_dict()
    shapes = {key: list(value.shape) for key, value in held["state"][0].items()}
    assert shapes == {"step": [], "row_var": [7, 1], "col_var": [1, 48]}
    exported = torch.load(tmp_path / "torch", weights_only=True)["optim"]
    torch.testing.assert_close(exported["state"], held["state"], rtol=0, atol=0)
    save(tmp_path / "saved", step.model, step.optimizer, 2, samples_per_step=2 * 4)
    resumed = chain.run_plan(compiled, 2, steps=4, extra=["--resume", tmp_path / "saved"])
    assert resumed.losses == run.losses[2:]


def test_a_state_that_is_one_number_is_refused(tmp_path: pathlib.Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.NAdam(model.parameters())
    with pytest.raises(CheckpointError, match="the state weight/mu_product is one number"):
        save(tmp_path, model, optimizer, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.provokes("FSDP-E0903")
def test_a_model_on_meta_is_refused(tmp_path: pathlib.Path) -> None:
    """Tests that values which nothing holds are not lost in silence."""
    model = torch.nn.Linear(3, 2)
    save(tmp_path, model, torch.optim.SGD(model.parameters(), 0.1), step=0)
    with pytest.raises(CheckpointError, match=r"weight, bias of the model are on meta.*to_empty"):
        load(tmp_path, torch.nn.Linear(3, 2, device="meta"))
