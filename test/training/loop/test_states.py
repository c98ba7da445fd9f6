"""Tests that a run's states are tensors that PyTorch's own code works on."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import fsdp_mlir

from . import step as model
from .conftest import Compile
from .ranks import Ranks

KEYS = ("exp_avg", "exp_avg_sq", "step")


@pytest.mark.parametrize("mesh, layout", (("2", "dim0"), ("2", "flat"), ("1x1x2", "flat")))
def test_states_go_through_a_distributed_checkpoint(
    mesh: str, layout: str, compile_step: Compile, ranks: Ranks, tmp_path: pathlib.Path
) -> None:
    compiled = compile_step(f"mesh={mesh} shard-layout={layout}")
    cut = (
        "("
        + "Replicate(), " * mesh.count("x")
        + "Shard(dim=0)"
        + ("," if mesh == "2" else "")
        + ")"
    )
    plan, weights, folder = str(compiled.plan), str(compiled.weights), str(tmp_path / "dcp")
    first, second = ranks.call("save_states", plan, weights, ranks.meeting(), folder)
    saved = load_file(folder + ".safetensors")
    parameters = [n for n in saved if not n.startswith("norm.") or n[5:] in ("weight", "bias")]
    of_optimizer = {f"state.{n}.{key}" for n in parameters for key in KEYS}
    assert first["kinds"].keys() == saved.keys() | of_optimizer
    for found in (first, second):
        assert all(torch.equal(found["copied"][n], found["whole"][n]) for n in saved)
        for name, value in saved.items():
            is_buffer = name.startswith("norm.") and name.split(".")[1] not in ("weight", "bias")
            assert found["kinds"][name] == ("Tensor" if is_buffer else "DTensor"), name
            if not is_buffer:
                assert torch.equal(found["whole"][name], value), name
                assert found["placements"][name] == cut
        # Views of what the run trains in, but for the layout that has none.
        assert found["moved"] == [layout == "dim0"] * 2
        for name in of_optimizer:
            is_count = name.endswith(".step")
            assert found["kinds"][name] == ("Tensor" if is_count else "DTensor"), name
            assert is_count or found["placements"][name] == cut
    loaded, _ = ranks.call("load_into_fsdp2", folder)
    for name in saved.keys() | of_optimizer:
        if "running" not in name:
            assert torch.equal(loaded[name], first["whole"][name]), name
    assert loaded["state.head.bias.step"] == 3 and loaded["state.head.bias.exp_avg"].any()
    for before, after in zip(
        (first, second), ranks.call("load_into_run", plan, weights, ranks.meeting(), folder)
    ):
        assert (after["step"], after["losses"]) == (3, before["losses"])
        (kind, unknown), (_, shape) = after["refused"]
        assert kind == "RunError" and "the run has no unknown" in unknown
        assert "head.bias is float32[4], and the run's is float32[3]" in shape


def test_without_a_process_group_states_are_whole(
    compile_step: Compile, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ranks = Ranks(tmp_path_factory.mktemp("fresh"))
    try:
        compiled = compile_step("mesh=2 shard-layout=flat")
        arguments = str(compiled.plan), str(compiled.weights), ranks.meeting()
        first, second = ranks.call("whole_states", *arguments)
    finally:
        ranks.close()
    start = load_file(compiled.weights)
    assert first.keys() == second.keys() == {k for k in start if not k.startswith("fsdp.")}
    for name, value in first.items():
        assert value.shape == start[name].shape
        if "running" not in name:
            assert torch.equal(value, second[name]), name


class Averaging(torch.optim.AdamW):
    """AdamW with an average of each parameter in its state."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if "average" not in self.state[p]:
                    self.state[p]["average"] = p.clone()
                self.state[p]["average"].lerp_(p, 0.1)


def test_an_average_of_the_weights_is_a_state_of_the_optimizer(tmp_path: pathlib.Path) -> None:
    """With the bits of PyTorch's averaged model; the run is evaluated on it, and trains on."""
    batch = model.samples(4)

    def made(optimizer: Any) -> fsdp_mlir.TrainingStep:
        torch.manual_seed(0)
        layer = torch.nn.Linear(6, 3)
        return fsdp_mlir.TrainingStep(
            layer,
            model.loss,
            optimizer(layer.parameters(), lr=0.1),
            inputs=batch,
            eval_data=batch,
        )

    theirs = made(torch.optim.AdamW)
    averaged = AveragedModel(theirs.model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for _ in range(4):
        theirs.optimizer.zero_grad()
        theirs.loss(theirs.model, **batch).backward()
        theirs.optimizer.step()
        averaged.update_parameters(theirs.model)
    with fsdp_mlir.compile(made(Averaging), cache_dir=tmp_path) as run:
        for _ in range(4):
            run(batch)
        weights = {name: value.clone() for name, value in run.state_dict().items()}
        states = run.state_dict(optimizer=True)
        averages = {name: states[f"state.{name}.average"] for name in weights}
        for name, value in averaged.module.state_dict().items():
            assert torch.equal(averages[name], value), name
        run.load_state_dict(averages)
        assert run.eval(batch)["loss"] == theirs.loss(averaged.module, **batch).item()
        run.load_state_dict(weights)
        assert run(batch).item() == theirs.loss(theirs.model, **batch).item()


def test_one_count_of_updates_for_all_is_warned_of(tmp_path: pathlib.Path) -> None:
    """Tests that parameters which were frozen until now, and whose updates PyTorch would count from
    one on, do not silently get the count of the others."""
    layers = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 3))

    def compiled(folder: str) -> fsdp_mlir.Run:
        optimizer = torch.optim.Adam(layers.parameters())
        step = fsdp_mlir.TrainingStep(layers, model.loss, optimizer, inputs=model.samples(4))
        return fsdp_mlir.compile(step, out=tmp_path / folder)

    layers[0].requires_grad_(False)
    with compiled("head") as run:
        for _ in range(2):
            run(model.samples(4))
        states = run.state_dict(optimizer=True)
    layers[0].requires_grad_(True)
    with compiled("all") as run:
        with pytest.warns(
            RuntimeWarning, match=r"0\.\w+\.step is 0 and .*1\.\w+\.step is 2, .*one"
        ):
            run.load_state_dict(states)
        assert run.step == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run.load_state_dict(run.state_dict(optimizer=True))
