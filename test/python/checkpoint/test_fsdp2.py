"""Tests that a run may change between PyTorch's FSDP2 and this project, there and back, with the
same losses, and that load() and save() do the same in a script."""

from __future__ import annotations

import pathlib
from typing import Any, Iterator

import pytest
import torch
from fsdp2_ranks import RANKS, Ranks
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
)

from fsdp_mlir.checkpoint import CheckpointError, load, save
from support.freed import freed

AFTER = END + 5


@pytest.fixture
def ranks(tmp_path: pathlib.Path) -> Iterator[Ranks]:
    ranks = Ranks(tmp_path)
    yield ranks
    ranks.close()


def mean(losses: list[list[float]]) -> list[float]:
    return [sum(row) / len(row) for row in zip(*losses)]


def test_there_and_back(ranks: Ranks, run: SmallRun, tmp_path: pathlib.Path) -> None:
    there, own, here = tmp_path / "dcp", tmp_path / "own", tmp_path / "here"
    losses = mean(ranks.call("begin_and_save", BEGIN, AFTER, str(there), str(own)))
    archive = ("--archive", run.archive)
    flags = (*archive, "--weights", run.weights, "--ranks", RANKS, "-o", here)
    status, _, err = command("import", there, "--from", "dcp", *flags)
    assert (status, err) == (0, "")
    path = here / f"step-{BEGIN:08d}"
    imported, saved = contents(path), contents(own)
    # Each rank has its own statistics, of which PyTorch's file has one rank's.
    differing = {name for name, rank in imported if imported[name, rank] != saved[name, rank]}
    assert imported.keys() == saved.keys() and differing <= {
        "norm.running_mean",
        "norm.running_var",
    }

    resumed = run.train(RANKS, END, "--checkpoint-dir", here, "--resume", "auto")
    assert resumed.losses == losses[BEGIN:END]
    assert run.train(RANKS, END, "--resume", own).losses == losses[BEGIN:END]
    assert run.result.losses == losses[:12]

    back = tmp_path / "back"
    assert command("export", here, "--to", "dcp", *archive, "-o", back)[0] == 0
    for function, folder in (("go_on_from_dcp", back), ("go_on_from_own", here)):
        assert mean(ranks.call(function, str(folder), END, AFTER)) == losses[END:], function


def test_a_script_loads_and_saves(run: SmallRun, single: Single, tmp_path: pathlib.Path) -> None:
    model = new_model()
    optimizer = new_optimizer(model)
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            value.zero_()
    assert load(single.at(BEGIN), model, optimizer) == BEGIN
    saved = save(tmp_path, model, optimizer, BEGIN, samples_per_step=4)
    assert contents(saved) == contents(single.at(BEGIN))
    assert run.train(1, END, "--resume", tmp_path).losses == single.losses[BEGIN:]
    assert eager_losses(model, optimizer, BEGIN, END) == single.losses[BEGIN:]


def test_load_takes_a_model_alone(single: Single) -> None:
    model = new_model()
    assert load(single.folder, model) == END
    for name, value in single.result.weights.items():
        assert torch.equal(model.state_dict()[name], value), name


class Counting(torch.optim.Optimizer):
    """Counts in its group, and keeps a norm, which a run holds as one element."""

    def __init__(self, params: Iterator[torch.nn.Parameter], shape: tuple[int, ...]) -> None:
        super().__init__(params, {"lr": 0.1})
        self.shape = shape

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["norm"] = p.grad.norm().view(self.shape)


def test_load_counts_in_groups(tmp_path: pathlib.Path) -> None:
    model = torch.nn.Linear(3, 2)
    saved, loaded = (Counting(model.parameters(), shape) for shape in ((1,), ()))
    for _ in range(3):
        model(torch.ones(3)).sum().backward()
        saved.step()
    save(tmp_path, model, saved, 3)
    model.zero_grad()
    assert load(tmp_path, model, loaded) == 3
    assert loaded.param_groups[0]["step"] == 3
    assert loaded.state[model.weight]["norm"].equal(saved.state[model.weight]["norm"][0])


@pytest.mark.provokes("FSDP-E0903")
def test_another_model_is_refused(single: Single, tmp_path: pathlib.Path) -> None:
    model = new_model()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    with pytest.raises(CheckpointError, match="has no embedding.weight/momentum_buffer"):
        load(single.folder, model, optimizer)
    with pytest.raises(CheckpointError, match="has no weight, bias"):
        load(single.folder, torch.nn.Linear(2, 2))
    model.mix.weight = torch.nn.Parameter(torch.zeros(6, 5))
    with pytest.raises(CheckpointError, match=r"mix.weight is float32\[6, 6\] in the checkpoint"):
        load(single.folder, model)
    model = new_model()
    optimizer = new_optimizer(model)
    eager_losses(model, optimizer, 0, 2)
    with pytest.raises(CheckpointError, match="has updated .* 2 times, and step is 3"):
        save(tmp_path, model, optimizer, 3)
    model.mix.weight.data = freed(model.mix.weight)
    with pytest.raises(CheckpointError, match="mix.weight has no memory for its elements"):
        save(tmp_path, model, optimizer, 2)


def test_a_run_begins_with_what_was_saved_before_the_first_step(
    run: SmallRun, single: Single, tmp_path: pathlib.Path
) -> None:
    model = new_model()
    optimizer = new_optimizer(model)
    with pytest.raises(CheckpointError, match="0 times, and step is 1"):
        save(tmp_path, model, optimizer, 1)
    save(tmp_path, model, optimizer, 0)
    assert not optimizer.state
    assert run.train(1, END, "--resume", tmp_path).losses == single.losses
