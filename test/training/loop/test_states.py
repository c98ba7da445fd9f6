"""Tests that a run's states are tensors that PyTorch's own code works on."""

from __future__ import annotations

import pathlib

import pytest
import torch
from safetensors.torch import load_file

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
