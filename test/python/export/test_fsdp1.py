"""Tests that FullyShardedDataParallel, FSDP1's constructor, is calls of fully_shard."""

import functools
import inspect
import pathlib
from typing import Any

import pytest
import torch
from exporting import classify, export
from test_fully_shard import Block, Model, owners, shard_blocks
from torch import nn
from torch.distributed import fsdp
from torch.distributed.fsdp import wrap

from fsdp_mlir import (
    CPUOffloadPolicy,
    ExportError,
    FullyShardedDataParallel,
    fully_shard,
    init_device_mesh,
    record_init,
)

HYBRID = init_device_mesh((2, 4), mesh_dim_names=("replicate", "shard"))
BY_CLASS = wrap.ModuleWrapPolicy({Block})
SHARD_GRAD_OP = fsdp.ShardingStrategy.SHARD_GRAD_OP


def only_reshards(module: nn.Module) -> Any:
    """A policy of CustomPolicy: the blocks alone keep their parameters."""
    return {"sharding_strategy": SHARD_GRAD_OP} if isinstance(module, Block) else False


def by_hand(model: Model) -> Model:
    model.blocks = nn.ModuleList(FullyShardedDataParallel(block) for block in model.blocks)
    return FullyShardedDataParallel(model)


def nothing_reshards(model: Model) -> Model:
    return shard_blocks(model, reshard_after_forward=False)


def everything_on_the_host(model: Model) -> Model:
    return shard_blocks(model, offload_policy=CPUOffloadPolicy())


def blocks_do_not_reshard(model: Model) -> Model:
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=False)
    return fully_shard(model)


@pytest.mark.filterwarnings("ignore:FullyShardedDataParallel is")
@pytest.mark.parametrize(
    "wrapped, same",
    [
        (FullyShardedDataParallel, fully_shard),
        ({"auto_wrap_policy": BY_CLASS}, shard_blocks),
        (by_hand, shard_blocks),
        (
            {
                "auto_wrap_policy": functools.partial(
                    wrap.transformer_auto_wrap_policy, transformer_layer_cls={Block}
                )
            },
            shard_blocks,
        ),
        (
            {
                "auto_wrap_policy": functools.partial(
                    wrap.size_based_auto_wrap_policy, min_num_params=100
                )
            },
            shard_blocks,
        ),
        ({"auto_wrap_policy": BY_CLASS, "sharding_strategy": SHARD_GRAD_OP}, nothing_reshards),
        ({"auto_wrap_policy": wrap.CustomPolicy(only_reshards)}, blocks_do_not_reshard),
        (
            {"auto_wrap_policy": BY_CLASS, "cpu_offload": fsdp.CPUOffload(offload_params=True)},
            everything_on_the_host,
        ),
        (
            {
                "auto_wrap_policy": BY_CLASS,
                "mixed_precision": fsdp.MixedPrecision(),
                "cpu_offload": fsdp.CPUOffload(offload_params=False),
                "sync_module_states": True,
                "use_orig_params": True,
                "limit_all_gathers": False,
            },
            shard_blocks,
        ),
    ],
)
def test_units_are_those_of_fully_shard(wrapped: Any, same: Any, tmp_path: pathlib.Path) -> None:
    if isinstance(wrapped, dict):
        wrapped = functools.partial(FullyShardedDataParallel, **wrapped)
    found = []
    for name, shard in (("wrapped", wrapped), ("same", same)):
        (tmp_path / name).mkdir()
        model = Model()
        assert shard(model) is model
        exported = export(classify(model), tmp_path / name)
        found.append((exported.metadata["units"], owners(exported)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ("ignored_states", "ignored_modules"))
def test_ignored_modules_are_ignored_parameters(name: str, tmp_path: pathlib.Path) -> None:
    model = Model()
    with pytest.warns(UserWarning, match="of each Block .*, then of the Model"):
        FullyShardedDataParallel(model, auto_wrap_policy=BY_CLASS, **{name: [model.blocks[0].up]})
    unowned = [f for f, u in owners(export(classify(model), tmp_path)).items() if u is None]
    assert unowned == ["blocks.0.up.weight", "blocks.0.up.bias"]


def test_the_mesh_is_the_plans(tmp_path: pathlib.Path) -> None:
    with pytest.warns(UserWarning, match="of the Model .reshard_after_forward=None"):
        model = FullyShardedDataParallel(Model(), device_mesh=init_device_mesh((4,)))
    assert export(classify(model), tmp_path).metadata["mesh"]["shape"] == [4]


class Normed(Model):
    """With buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.norm(x))


@pytest.mark.filterwarnings("ignore:FullyShardedDataParallel is")
def test_mixed_precision_is_a_policy(tmp_path: pathlib.Path) -> None:
    """The root's inputs are cast, and a wrapping policy keeps BatchNorm in float32."""
    mixed = fsdp.MixedPrecision(torch.bfloat16, reduce_dtype=torch.float32)
    model = FullyShardedDataParallel(Normed(), auto_wrap_policy=BY_CLASS, mixed_precision=mixed)
    units = {unit["name"]: unit for unit in export(classify(model), tmp_path).metadata["units"]}
    fields = ("param_dtype", "reduce_dtype", "output_dtype", "cast_forward_inputs")
    assert {name: [unit[field] for field in fields] for name, unit in units.items()} == {
        "": ["bfloat16", "float32", None, True],
        "blocks.0": ["bfloat16", "float32", None, False],
        "blocks.1": ["bfloat16", "float32", None, False],
        "norm": ["float32", None, "bfloat16", True],
    }


@pytest.mark.provokes("FSDP-E0222")
def test_buffers_keep_their_dtype() -> None:
    mixed = fsdp.MixedPrecision(buffer_dtype=torch.bfloat16)
    with pytest.warns(UserWarning, match="is fully_shard here"):
        FullyShardedDataParallel(Model(), mixed_precision=mixed)
    with pytest.raises(ExportError, match="norm.running_mean is float32; buffers keep their dtype"):
        FullyShardedDataParallel(Normed(), mixed_precision=mixed)


@pytest.mark.parametrize(
    "strategy, mesh, shape, reshard",
    [
        ("NO_SHARD", init_device_mesh((4,)), [4, 1], None),
        ("HYBRID_SHARD", HYBRID, [2, 4], None),
        ("_HYBRID_SHARD_ZERO2", HYBRID, [2, 4], False),
    ],
)
@pytest.mark.filterwarnings("ignore:FullyShardedDataParallel is")
def test_replicas_are_a_mesh_of_two_dimensions(
    strategy: str, mesh: Any, shape: list[int], reshard: Any, tmp_path: pathlib.Path
) -> None:
    strategy = fsdp.ShardingStrategy[strategy]
    model = FullyShardedDataParallel(Model(), sharding_strategy=strategy, device_mesh=mesh)
    metadata = export(classify(model), tmp_path).metadata
    assert metadata["mesh"]["shape"] == shape
    assert metadata["units"][0]["reshard_after_forward"] is reshard


def test_it_has_fsdp1s_arguments_and_defaults() -> None:
    ours = inspect.signature(FullyShardedDataParallel).parameters
    theirs = dict(inspect.signature(fsdp.FullyShardedDataParallel.__init__).parameters)
    del theirs["self"]
    assert {n: (p.kind, p.default) for n, p in ours.items()} == {
        n: (p.kind, p.default) for n, p in theirs.items()
    }


@pytest.mark.provokes("FSDP-E0202", "FSDP-E0221", "FSDP-E0222")
@pytest.mark.parametrize(
    "options, text",
    [
        (
            {"sharding_strategy": fsdp.ShardingStrategy.NO_SHARD},
            r"NO_SHARD needs device_mesh: give init_device_mesh\(\(ranks,\)\)",
        ),
        (
            {"sharding_strategy": fsdp.ShardingStrategy.HYBRID_SHARD},
            r"HYBRID_SHARD needs device_mesh: give init_device_mesh\(\(replicas, shards\), mesh_dim",
        ),
        ({"device_mesh": HYBRID}, "FULL_SHARD takes a mesh of 1 dimension, device_mesh has 2"),
        (
            {"mixed_precision": fsdp.MixedPrecision(keep_low_precision_grads=True)},
            "keep_low_precision_grads of mixed_precision has no meaning in a plan",
        ),
        ({"process_group": object()}, "process_group has no meaning in a plan; describe the ranks"),
        ({"auto_wrap_policy": 3}, "auto_wrap_policy is int; give a policy of torch.distributed"),
        ({"device_mesh": 2}, "mesh is 2; give one from fsdp_mlir.init_device_mesh"),
    ],
)
def test_what_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ExportError, match=text):
        FullyShardedDataParallel(Model(), **options)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"backward_prefetch": None}, "backward_prefetch is a hint.*its option prefetch-backward"),
        ({"forward_prefetch": True}, "forward_prefetch is a hint"),
        ({"device_id": 0}, "device_id has no effect: the plan names the device"),
    ],
)
@pytest.mark.filterwarnings("ignore:FullyShardedDataParallel is")
def test_hints_are_warnings(options: dict[str, Any], text: str) -> None:
    with pytest.warns(UserWarning, match=text):
        FullyShardedDataParallel(Model(), **options)


def test_a_mistyped_option_names_the_nearest() -> None:
    with pytest.raises(
        TypeError, match="no option 'wrap_policy'; the nearest is 'auto_wrap_policy"
    ):
        FullyShardedDataParallel(Model(), wrap_policy=BY_CLASS)


def test_param_init_fn_is_recorded(tmp_path: pathlib.Path) -> None:
    def init(module: nn.Module) -> None:
        module.to_empty(device="cuda", recurse=False)
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter, std=0.02)

    with record_init():
        with torch.device("meta"):
            model = Model()
        with pytest.warns(UserWarning, match="is fully_shard here"):
            FullyShardedDataParallel(model, auto_wrap_policy=BY_CLASS, param_init_fn=init)
        step = classify(model)
    for parameter in export(step, tmp_path).metadata["parameters"]:
        (drawn,) = parameter["init"]
        assert (drawn["op"], drawn["values"]) == ("normal", [0.0, 0.02])
