"""Tests that what cannot be compiled yet is refused: by name, with what to use instead."""

import pathlib
from typing import Any

import pytest
from exporting import classify, export
from test_fully_shard import Model, shard_blocks

from fsdp_mlir import DeviceMesh, ExportError, init_device_mesh

HSDP = init_device_mesh((2, 2), mesh_dim_names=("replicate", "shard"))


@pytest.mark.parametrize(
    "options, text",
    [
        ({"mesh": HSDP["shard"]}, r"a mesh that is a part of one of 4 ranks .init_device_mesh"),
        ({"mesh": DeviceMesh("cpu", [1, 0])}, "a mesh whose ranks are not in order"),
    ],
)
def test_policies(options: dict[str, Any], text: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ExportError, match=f"asked for what does not exist yet: {text}"):
        export(classify(shard_blocks(Model(), **options)), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"shard_placement_fn": lambda parameter: None},
    ],
)
def test_a_policy_that_changes_nothing_is_accepted(
    options: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    assert len(export(classify(shard_blocks(Model(), **options)), tmp_path).metadata["units"]) == 3


@pytest.mark.provokes("FSDP-E0223")
def test_a_step_hook_of_the_optimizer(tmp_path: pathlib.Path) -> None:
    step = classify(Model())
    step.optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(ExportError, match="the optimizer has step hooks.*remove them"):
        export(step, tmp_path)


@pytest.mark.parametrize("register", ("register_hook", "register_post_accumulate_grad_hook"))
def test_a_hook_on_a_gradient(register: str, tmp_path: pathlib.Path) -> None:
    model = Model()
    getattr(model.head.bias, register)(lambda *_: None)
    with pytest.raises(ExportError, match="head.bias has a hook on its gradient.*remove it"):
        export(classify(model), tmp_path)
