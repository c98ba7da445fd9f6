"""Tests that export marks the ops of torch.utils.checkpoint's regions, and what their policy saves."""

import functools
import pathlib
from typing import Any, Callable

import pytest
import torch
from exporting import Exported, assert_same_as_eager, classify, export
from torch import nn
from torch.distributed._composable import checkpoint as composable
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from fsdp_mlir import ExportError, fully_shard


class Model(nn.Module):
    """Two blocks, each in a checkpoint, and a head."""

    def __init__(self, context: Callable[[], Any] | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(inplace=True)) for _ in range(2)
        )
        self.head = nn.Linear(8, 3)
        self.options = {"use_reentrant": False}
        if context is not None:
            self.options["context_fn"] = context

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return self.head(x)


def selective(policy: CheckpointPolicy) -> Callable[[], Any]:
    """Contexts whose policy gives `policy` for linear layers."""

    def policy_of(context: Any, op: Any, *args: Any, **options: Any) -> CheckpointPolicy:
        linear = op is torch.ops.aten.addmm.default
        return policy if linear else CheckpointPolicy.PREFER_RECOMPUTE

    return functools.partial(create_selective_checkpoint_contexts, policy_of)


def regions(exported: Exported, program: str = "step") -> dict[Any, set[str]]:
    """The modules of each checkpoint's ops."""
    found: dict[Any, set[str]] = {}
    for node in exported.program(program)["nodes"]:
        found.setdefault(node["checkpoint"], set()).add(node["module"])
        assert node["checkpoint"] is None or node["phase"] == "forward"
    return found


def test_each_checkpoint_has_its_number(tmp_path: pathlib.Path) -> None:
    exported = export(classify(Model()), tmp_path)
    found = regions(exported)
    assert found[0] == {"blocks.0.0", "blocks.0.1", "blocks.0.2"}
    assert found[1] == {"blocks.1.0", "blocks.1.1", "blocks.1.2"}
    assert not any(node["keep"] for node in exported.program()["nodes"])


def test_numbers_are_those_of_eager(tmp_path: pathlib.Path) -> None:
    assert_same_as_eager(classify(Model()), tmp_path)


def test_a_policy_says_what_is_kept(tmp_path: pathlib.Path) -> None:
    model = Model(selective(CheckpointPolicy.MUST_SAVE))
    nodes = export(classify(model), tmp_path).program()["nodes"]
    kept = [(node["checkpoint"], node["op"]) for node in nodes if node["keep"]]
    assert kept == [(0, "aten::addmm"), (1, "aten::addmm")]


@pytest.mark.provokes("FSDP-E0226")
def test_a_policy_that_offloads_is_refused(tmp_path: pathlib.Path) -> None:
    model = Model(selective(CheckpointPolicy.MUST_CPU_OFFLOAD))
    with pytest.raises(ExportError, match="policy gives MUST_CPU_OFFLOAD for aten.addmm.default"):
        export(classify(model), tmp_path)


def test_a_wrapper_leaves_no_trace_in_names(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)))
    for i in range(2):
        model[i] = fully_shard(checkpoint_wrapper(model[i]))
    fully_shard(model)
    exported = export(classify(model), tmp_path)
    found = regions(exported)
    assert (found[0], found[1]) == ({"0.0", "0.1"}, {"1.0", "1.1"})
    names = [parameter["fqn"] for parameter in exported.metadata["parameters"]]
    assert names == list(model.state_dict())
    assert [(unit["name"], unit["root"]) for unit in exported.metadata["units"]] == [
        ("", True),
        ("0", False),
        ("1", False),
    ]
    classes = {module["path"]: module["class"] for module in exported.metadata["modules"]}
    assert classes["0"] == "Sequential" and classes["0.0"] == "Linear"


class Composed(Model):
    """The same, in the checkpoints that are put on modules from outside."""

    def __init__(self, context: Callable[[], Any] | None = None) -> None:
        super().__init__(context)
        for block in self.blocks:
            composable(block, **self.options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Segments(nn.Module):
    """Five layers in two segments, of which the last is in no checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 3)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)


def test_the_composable_checkpoint(tmp_path: pathlib.Path) -> None:
    model = Composed()
    hooks = [list(block._forward_pre_hooks.items()) for block in model.blocks]
    found = regions(export(classify(model), tmp_path))
    assert found[0] == {"blocks.0.0", "blocks.0.1", "blocks.0.2"}
    assert found[1] == {"blocks.1.0", "blocks.1.1", "blocks.1.2"}
    # The model is still PyTorch's to train.
    assert [list(block._forward_pre_hooks.items()) for block in model.blocks] == hooks
    assert not any("forward" in vars(block) for block in model.blocks)
    assert_same_as_eager(classify(model), tmp_path)


def test_a_composable_checkpoints_policy(tmp_path: pathlib.Path) -> None:
    model = Composed(selective(CheckpointPolicy.MUST_SAVE))
    nodes = export(classify(model), tmp_path).program()["nodes"]
    kept = [(node["checkpoint"], node["op"]) for node in nodes if node["keep"]]
    assert kept == [(0, "aten::addmm"), (1, "aten::addmm")]


def test_segments_of_a_sequence(tmp_path: pathlib.Path) -> None:
    found = regions(export(classify(Segments()), tmp_path))
    assert found[0] == {"layers.0", "layers.1"}
    assert {"layers.2", "layers.3", "layers.4"} <= found[None] and 1 not in found
    assert_same_as_eager(classify(Segments()), tmp_path)
