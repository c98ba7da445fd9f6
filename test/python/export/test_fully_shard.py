"""Tests that fully_shard records units, and that the archive holds them."""

import copy
import inspect
import pathlib
from typing import Any, Callable

import pytest
import torch
import torch.distributed.fsdp as fsdp2
from exporting import Exported, classify, export, sgd
from torch import nn

from fsdp_mlir import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    init_device_mesh,
    register_fsdp_forward_method,
)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def shard_blocks(model: Model, **options: Any) -> Model:
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def owners(exported: Exported) -> dict[str, Any]:
    return {p["fqn"]: p["unit"] for p in exported.metadata["parameters"]}


def test_a_model_without_units_leaves_them_to_the_compiler(tmp_path: pathlib.Path) -> None:
    exported = export(classify(Model()), tmp_path)
    assert exported.metadata["units"] == [] and exported.metadata["mesh"] is None
    assert set(owners(exported).values()) == {None}


def test_the_outermost_call_takes_what_is_left(tmp_path: pathlib.Path) -> None:
    exported = export(classify(shard_blocks(Model())), tmp_path)
    units = exported.metadata["units"]
    assert [(unit["name"], unit["root"]) for unit in units] == [
        ("", True),
        ("blocks.0", False),
        ("blocks.1", False),
    ]
    assert {unit["reshard_after_forward"] for unit in units} == {None}
    for fqn, owner in owners(exported).items():
        assert owner == (fqn[:8] if fqn.startswith("blocks") else "")


def test_a_list_is_one_unit(tmp_path: pathlib.Path) -> None:
    model = Model()
    returned = fully_shard([model.norm, model.head], reshard_after_forward=False)
    assert returned == [model.norm, model.head]
    fully_shard(model)
    exported = export(classify(model), tmp_path)
    assert {"name": "norm", "modules": ["norm", "head"]}.items() <= exported.metadata["units"][
        1
    ].items()
    assert exported.metadata["units"][1]["reshard_after_forward"] is False
    assert [f for f, unit in owners(exported).items() if unit == "norm"] == [
        "norm.weight",
        "norm.bias",
        "head.weight",
        "head.bias",
    ]


def test_a_member_inside_another_is_sharded_with_it(tmp_path: pathlib.Path) -> None:
    model = Model()
    fully_shard([model.blocks[0].up, model.blocks[0]])
    assert not isinstance(model.blocks[0].up, FSDPModule)
    assert isinstance(model.blocks[0], FSDPModule)


def test_the_module_itself_is_returned_and_stays_what_it_was() -> None:
    model = Model()
    parameters = dict(model.named_parameters())
    assert fully_shard(model) is model
    assert isinstance(model, FSDPModule) and isinstance(model, Model)
    assert type(model).__name__ == "FSDPModel"
    assert {n: id(p) for n, p in model.named_parameters()} == {
        n: id(p) for n, p in parameters.items()
    }
    assert type(fully_shard(nn.Sequential(nn.ReLU(), nn.ReLU()))[:1]) is nn.Sequential


def test_capture_is_the_same_with_and_without(tmp_path: pathlib.Path) -> None:
    programs, modules = [], []
    for name, shard in (("plain", lambda model: model), ("sharded", shard_blocks)):
        torch.manual_seed(0)
        (tmp_path / name).mkdir()
        metadata = export(classify(shard(Model())), tmp_path / name).metadata
        programs.append(metadata["programs"])
        modules.append(metadata["modules"])
    assert programs[0] == programs[1]
    assert modules[0] == modules[1]


@pytest.mark.parametrize("before", (True, False))
def test_the_optimizer_may_be_built_before_or_after(before: bool, tmp_path: pathlib.Path) -> None:
    model = Model()
    optimizer = sgd(model) if before else None
    shard_blocks(model)
    exported = export(classify(model, optimizer=optimizer or sgd(model)), tmp_path)
    assert exported.metadata["optimizer"]["groups"][0]["parameters"] == list(owners(exported))


def test_weights_tied_after_fully_shard_are_one_parameter(tmp_path: pathlib.Path) -> None:
    model = shard_blocks(Model())
    model.blocks[0].up.weight = model.blocks[0].down.weight
    exported = export(classify(model), tmp_path)
    assert owners(exported)["blocks.0.up.weight"] == "blocks.0"


def test_the_mesh_is_described(tmp_path: pathlib.Path) -> None:
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("shard",))
    exported = export(classify(shard_blocks(Model(), mesh=mesh)), tmp_path)
    assert exported.metadata["mesh"] == {"device": "cpu", "shape": [4], "names": ["shard"]}


def test_a_mesh_of_replicas_is_described(tmp_path: pathlib.Path) -> None:
    mesh = init_device_mesh((2, 4), mesh_dim_names=("replicate", "shard"))
    described = export(classify(shard_blocks(Model(), mesh=mesh)), tmp_path).metadata["mesh"]
    assert described == {"device": None, "shape": [2, 4], "names": ["replicate", "shard"]}


def test_a_mesh_has_any_number_of_dimensions(tmp_path: pathlib.Path) -> None:
    """States are cut along the last, also where a number is kept between forward and backward."""
    names = ("pods", "hosts", "cards")
    mesh = init_device_mesh("cpu", (2, 3, 4), mesh_dim_names=names)
    model = fully_shard(Model(), mesh=mesh, reshard_after_forward=4)
    metadata = export(classify(model), tmp_path).metadata
    assert metadata["mesh"] == {"device": "cpu", "shape": [2, 3, 4], "names": list(names)}
    assert metadata["units"][0]["reshard_after_forward"] is True


def test_parameters_are_split_on_the_dimension_that_is_chosen(tmp_path: pathlib.Path) -> None:
    from torch.distributed.tensor import Shard

    model = fully_shard(Model(), shard_placement_fn=lambda p: Shard(-1) if p.dim() == 2 else None)
    for entry in export(classify(model), tmp_path).metadata["parameters"]:
        assert entry["shard_dim"] == len(entry["shape"]) - 1


def test_a_mesh_of_cuda_devices_is_a_warning(tmp_path: pathlib.Path) -> None:
    mesh = init_device_mesh("cuda", (2,))
    exported = export(classify(shard_blocks(Model(), mesh=mesh)), tmp_path)
    assert any("compile the step with device=cuda" in text for text in exported.warnings)


def test_ignored_parameters_are_in_no_unit(tmp_path: pathlib.Path) -> None:
    model = Model()
    fully_shard(model, ignored_params={model.head.bias})
    exported = export(classify(model), tmp_path)
    assert [fqn for fqn, unit in owners(exported).items() if unit is None] == ["head.bias"]
    assert any("head.bias is in ignored_params and trainable" in w for w in exported.warnings)


def test_frozen_parameters_outside_every_unit_are_whole_on_each_rank(
    tmp_path: pathlib.Path,
) -> None:
    model = Model()
    model.blocks.requires_grad_(False)
    fully_shard(model.norm)
    fully_shard(model.head)
    exported = export(classify(model), tmp_path)
    assert {unit for fqn, unit in owners(exported).items() if fqn.startswith("blocks")} == {None}
    assert [(u["name"], u["root"]) for u in exported.metadata["units"]] == [
        ("norm", True),
        ("head", True),
    ]


@pytest.mark.parametrize(
    "ranks, given, kept", [(4, 4, True), (4, 1, False), (4, False, False), (4, 2, 2)]
)
def test_a_number_that_means_true_or_false(
    ranks: int, given: Any, kept: Any, tmp_path: pathlib.Path
) -> None:
    mesh = init_device_mesh((ranks,))
    model = fully_shard(Model(), mesh=mesh, reshard_after_forward=given)
    exported = export(classify(model), tmp_path)
    assert exported.metadata["units"][0]["reshard_after_forward"] is kept


def test_setters_that_are_recorded(tmp_path: pathlib.Path) -> None:
    model = shard_blocks(Model())
    model.blocks[0].set_reshard_after_forward(True)
    model.blocks[1].set_reshard_after_forward(False, recurse=False)
    exported = export(classify(model), tmp_path)
    found = [unit["reshard_after_forward"] for unit in exported.metadata["units"]]
    assert found == [None, True, False]
    model.set_reshard_after_forward(False)
    exported = export(classify(model), tmp_path)
    assert {unit["reshard_after_forward"] for unit in exported.metadata["units"]} == {False}


def test_prefetch_lists_are_recorded(tmp_path: pathlib.Path) -> None:
    model = shard_blocks(Model())
    model.set_modules_to_forward_prefetch([model.blocks[0], model.blocks[1], model.blocks[0]])
    model.blocks[1].set_modules_to_backward_prefetch([model.blocks[0]])
    units = export(classify(model), tmp_path).metadata["units"]
    lists = {unit["name"]: (unit["prefetch_forward"], unit["prefetch_backward"]) for unit in units}
    assert lists == {
        "": (["blocks.0", "blocks.1"], []),
        "blocks.0": ([], []),
        "blocks.1": ([], ["blocks.0"]),
    }


def test_a_divide_factor_is_one_units(tmp_path: pathlib.Path) -> None:
    model = shard_blocks(Model())
    model.blocks[0].set_gradient_divide_factor(3)
    model.set_reduce_scatter_divide_factor(1.0)
    units = export(classify(model), tmp_path).metadata["units"]
    divisors = {unit["name"]: unit["gradient_divisor"] for unit in units}
    assert divisors == {"": 1.0, "blocks.0": 3.0, "blocks.1": None}


def test_parameters_are_gathered_in_each_micro_batch() -> None:
    model = fully_shard(Model())
    with pytest.warns(UserWarning, match="the plan gathers them in each"):
        model.set_reshard_after_backward(False)


def test_setters_that_say_what_holds_anyway() -> None:
    model = fully_shard(Model())
    model.set_requires_gradient_sync(True)
    model.set_requires_all_reduce(True, recurse=False)
    model.set_is_last_backward(True)
    model.set_reshard_after_backward(True)
    model.set_unshard_in_backward(False)
    model.set_force_sum_reduction_for_comms(True)
    model.set_allocate_memory_from_process_group_for_comm(True)
    register_fsdp_forward_method(model, "forward")


def public_methods(cls: type) -> dict[str, Callable]:
    return {name: f for name, f in vars(cls).items() if inspect.isfunction(f) and name[0] != "_"}


def test_every_method_of_fsdp2s_module_is_there_with_its_arguments() -> None:
    ours = public_methods(FSDPModule)
    for name, theirs in public_methods(fsdp2.FSDPModule).items():
        assert list(inspect.signature(ours[name]).parameters) == list(
            inspect.signature(theirs).parameters
        ), name


def test_fully_shard_has_fsdp2s_arguments_and_defaults() -> None:
    ours = inspect.signature(fully_shard).parameters
    theirs = inspect.signature(fsdp2.fully_shard.__wrapped__).parameters
    assert list(ours) == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind
        if parameter.default is None or parameter.default is parameter.empty:
            assert ours[name].default is parameter.default
        else:
            assert type(ours[name].default).__name__ == type(parameter.default).__name__


@pytest.mark.parametrize(
    "ours, theirs",
    [
        (MixedPrecisionPolicy, fsdp2.MixedPrecisionPolicy),
        (OffloadPolicy, fsdp2.OffloadPolicy),
        (CPUOffloadPolicy, fsdp2.CPUOffloadPolicy),
    ],
)
def test_policies_have_fsdp2s_fields_and_defaults(ours: type, theirs: type) -> None:
    assert vars(ours()) == vars(theirs())


def test_a_policy_of_the_default_is_no_policy(tmp_path: pathlib.Path) -> None:
    options = {"mp_policy": MixedPrecisionPolicy(cast_forward_inputs=False)}
    model = shard_blocks(Model(), offload_policy=OffloadPolicy(), **options)
    assert len(export(classify(model), tmp_path).metadata["units"]) == 3


def test_a_unit_lives_on_the_host_by_its_policy(tmp_path: pathlib.Path) -> None:
    model = Model()
    fully_shard(model.blocks[0], offload_policy=CPUOffloadPolicy())
    fully_shard(model.blocks[1], offload_policy=CPUOffloadPolicy(pin_memory=False))
    fully_shard(model, offload_policy=OffloadPolicy())
    units = export(classify(model), tmp_path).metadata["units"]
    assert {unit["name"]: unit["offload"] for unit in units} == {
        "": None,
        "blocks.0": {"pin_memory": True},
        "blocks.1": {"pin_memory": False},
    }


def test_the_order_of_calls_is_bottom_up() -> None:
    model = Model()
    fully_shard(model.blocks[0])
    assert copy.deepcopy(model.blocks[1]) is not model.blocks[1]
