"""Tests that an annotation which FSDP2 refuses is refused, by an error that says how to mend it."""

import copy
import pathlib
from typing import Any, Callable

import pytest
import torch
from exporting import classify, export
from test_fully_shard import Block, Model, shard_blocks
from torch import nn
from torch.distributed import fsdp

from fsdp_mlir import (
    CPUOffloadPolicy,
    DeviceMesh,
    ExportError,
    MixedPrecisionPolicy,
    TrainingStep,
    fully_shard,
    init_device_mesh,
    register_fsdp_forward_method,
)


@pytest.mark.parametrize(
    "module, options, text",
    [
        (3, {}, "module is 3; give a torch.nn.Module or a list of them"),
        ([], {}, "an empty list; give the modules that are one unit"),
        (nn.ModuleList([Block()]), {}, "a ModuleList, which has no forward; give its members"),
        (nn.ModuleDict({"a": Block()}), {}, "a ModuleDict, which has no forward"),
        (Block(), {"mesh": 2}, "mesh is 2; give one from fsdp_mlir.init_device_mesh"),
        (Block(), {"mesh": init_device_mesh((2, 2))}, "the mesh has 2 dimensions without names"),
        (Block(), {"mesh": init_device_mesh((2, 2, 2))}, "has 3 dimensions without names; name"),
        (Block(), {"reshard_after_forward": "yes"}, "reshard_after_forward is 'yes'; give True"),
        (Block(), {"reshard_after_forward": 0}, "reshard_after_forward is 0; give True"),
        (
            Block(),
            {"reshard_after_forward": 3, "mesh": init_device_mesh((8,))},
            "reshard_after_forward is 3, which does not divide the 8 ranks",
        ),
        (Block(), {"shard_placement_fn": 1}, "shard_placement_fn is 1; give a function"),
        (Block(), {"mp_policy": torch.bfloat16}, "mp_policy is dtype; give an fsdp_mlir.Mixed"),
        (Block(), {"offload_policy": True}, "offload_policy is True; give an fsdp_mlir.Offload"),
        (
            Block(),
            {"offload_policy": fsdp.CPUOffloadPolicy()},
            "give fsdp_mlir's CPUOffloadPolicy, and not torch's",
        ),
        (Block(), {"ignored_params": 3}, "ignored_params is 3; give a set of parameters"),
        (Block(), {"ignored_params": {"w"}}, "a member of ignored_params is 'w'; give a parameter"),
    ],
)
def test_arguments(module: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ExportError, match=text):
        fully_shard(module, **options)


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda: fully_shard(Block(), reshard_after_foward=True),
            "fully_shard has no option 'reshard_after_foward'; the nearest is "
            "'reshard_after_forward', all are",
        ),
        (
            lambda: MixedPrecisionPolicy(params_dtype=None),
            "MixedPrecisionPolicy has no option 'params_dtype'; the nearest is 'param_dtype'",
        ),
        (
            lambda: CPUOffloadPolicy(pinned_memory=True),
            "CPUOffloadPolicy has no option 'pinned_memory'; the nearest is 'pin_memory'",
        ),
        (
            lambda: init_device_mesh((2,), mesh_dim_name=("a",)),
            "init_device_mesh has no option 'mesh_dim_name'; the nearest is 'mesh_dim_names'",
        ),
        (
            lambda: TrainingStep(nn.Linear(1, 1), optimiser=None),
            "TrainingStep has no option 'optimiser'; the nearest is 'optimizer'",
        ),
        (
            lambda: TrainingStep(nn.Linear(1, 1), lambda model, x: x, optimizer=None),
            "TrainingStep: missing a required argument: 'inputs'; it takes model, loss, optimizer",
        ),
    ],
)
def test_a_mistyped_option_names_the_nearest(call: Callable, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: init_device_mesh("cpu:0", (2,)), "device_type is 'cpu:0'; give 'cpu'"),
        (lambda: init_device_mesh("tpu", (2,)), "device_type is 'tpu'; there are cpu and cuda"),
        (lambda: init_device_mesh("cpu"), "mesh_shape is None; give the size"),
        (lambda: init_device_mesh((2, 0)), r"mesh_shape is \(2, 0\); give the size"),
        (lambda: init_device_mesh(2), "mesh_shape is 2; give the size"),
        (
            lambda: init_device_mesh((2, 2), mesh_dim_names=("a", "a")),
            "each name is there once",
        ),
        (
            lambda: init_device_mesh((2, 2), mesh_dim_names=("a",)),
            "mesh_dim_names has 1 names for 2 dimensions",
        ),
        (lambda: init_device_mesh((2,), mesh_dim_names="a"), "give a tuple of names"),
        (lambda: DeviceMesh("cpu", [0, 0]), r"mesh is \[0, 0\]; each rank is there once"),
        (lambda: DeviceMesh("cpu", [[0], [1, 2]]), "give ranks as nested lists of equal length"),
        (lambda: DeviceMesh("cpu", 3), "give ranks as nested lists of integers"),
        (lambda: init_device_mesh((2,)).get_group(), "neither a process group nor a rank"),
    ],
)
def test_meshes(call: Callable, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        call()


def test_a_mesh_has_fsdp2s_fields() -> None:
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("replicate", "shard"))
    assert (mesh.ndim, mesh.shape, mesh.size(), mesh.size(1)) == (2, (2, 4), 8, 4)
    assert mesh.mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mesh["shard"].mesh.tolist() == [0, 1, 2, 3]
    assert mesh == init_device_mesh("cpu", (2, 4), mesh_dim_names=("replicate", "shard"))
    assert mesh != init_device_mesh((2, 4), mesh_dim_names=("replicate", "shard"))
    assert mesh != init_device_mesh("cuda", (2, 4), mesh_dim_names=("replicate", "shard"))
    with pytest.raises(KeyError, match="no dimension 'shards'; the nearest is 'shard'"):
        mesh["shards"]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: MixedPrecisionPolicy(param_dtype="bf16"), "param_dtype of Mixed.* is 'bf16'"),
        (lambda: MixedPrecisionPolicy(reduce_dtype=torch.int8), "give a floating-point dtype"),
        (lambda: MixedPrecisionPolicy(cast_forward_inputs=1), "it is either True or False"),
        (lambda: CPUOffloadPolicy(pin_memory="no"), "it is either True or False"),
    ],
)
def test_policies(call: Callable, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        call()


@pytest.mark.provokes("FSDP-E0219")
def test_a_module_has_one_unit() -> None:
    block = fully_shard(Block())
    with pytest.raises(ExportError, match="applied to this Block before; a module has one unit"):
        fully_shard(block)


def test_units_are_applied_bottom_up() -> None:
    model = fully_shard(Model())
    with pytest.raises(ExportError, match="a Block inside a Model, which has taken its parameters"):
        fully_shard(model.blocks[0])


def test_the_annotated_model_is_the_steps(tmp_path: pathlib.Path) -> None:
    model = Model()
    fully_shard(nn.Sequential(model, nn.Identity()))
    with pytest.raises(ExportError, match="a Sequential that the step's model, a Model, is inside"):
        export(classify(model), tmp_path)


def test_half_precision_without_a_loss_scale_is_a_warning(tmp_path: pathlib.Path) -> None:
    model = Model()
    model.head.half()
    step = classify(model, loss=lambda model, x, y: model.norm(x).sum() + model.head.bias.sum())
    warned = [text for text in export(step, tmp_path).warnings if "loss scale" in text]
    assert len(warned) == 1 and warned[0].startswith("head.weight is trainable and float16")


def test_a_module_is_not_copied_afterwards() -> None:
    with pytest.raises(ExportError, match="cannot be copied after fully_shard; copy it before"):
        copy.deepcopy(fully_shard(Block()))


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda m: m.unshard(), "the plan gathers parameters; use set_modules_to_forward_pref"),
        (lambda m: m.reshard(), "the plan frees parameters; use reshard_after_forward"),
        (lambda m: m.set_requires_gradient_sync(False), r"TrainingStep\(accumulate=K\) sums them"),
        (lambda m: m.set_requires_all_reduce(False), r"TrainingStep\(accumulate=K\)"),
        (lambda m: m.set_is_last_backward(False), r"TrainingStep\(accumulate=K\)"),
        (lambda m: m.no_sync(), r"no_sync has no meaning in a plan: .*accumulate=K"),
        (lambda m: m.set_gradient_divide_factor(0.0), "factor is 0.0; give a number above 0"),
        (lambda m: m.set_reduce_scatter_divide_factor(True), "factor is True; give a number"),
        (lambda m: m.set_custom_all_gather(None), "choose collectives by the pipeline's options"),
        (lambda m: m.set_custom_reduce_scatter(None), "no Python runs while a plan does"),
        (lambda m: m.set_all_reduce_hook(None), "no Python runs while a plan does"),
        (lambda m: m.set_post_optim_event(None), "orders gathers behind updates"),
        (lambda m: m.set_reshard_after_forward(2), "reshard_after_forward is 2; give True or"),
        (lambda m: m.set_reshard_after_backward("x"), "reshard_after_backward is 'x'; give True"),
        (lambda m: m.set_modules_to_forward_prefetch(m), "modules is FSDPBlock; give a list of"),
        (
            lambda m: m.set_modules_to_forward_prefetch([nn.ReLU()]),
            "a module to prefetch is ReLU; give one after fully_shard",
        ),
        (lambda m: register_fsdp_forward_method(m, "encode"), "Block has no method encode"),
    ],
)
def test_setters(call: Callable, text: str) -> None:
    with pytest.raises(ExportError, match=text):
        call(fully_shard(Block()))


def scalar(model: Model) -> None:
    model.scale = nn.Parameter(torch.tensor(1.0))
    fully_shard(model)


def tied_across_units(model: Model) -> None:
    model.blocks[1].up.weight = model.blocks[0].up.weight
    shard_blocks(model)


def two_dtypes(model: Model) -> None:
    model.head.double()
    shard_blocks(model)


def two_meshes(model: Model) -> None:
    fully_shard(model.head, mesh=init_device_mesh((2,)))
    fully_shard(model, mesh=init_device_mesh((4,)))


def number_without_a_mesh(model: Model) -> None:
    fully_shard(model.head, reshard_after_forward=3)
    fully_shard(model, mesh=init_device_mesh((4,)))


def without_a_root(model: Model) -> None:
    for block in model.blocks:
        fully_shard(block)


def list_outermost(model: Model) -> None:
    fully_shard([model.norm, model.head])


def prefetched_stranger(model: Model) -> None:
    fully_shard(model)
    model.set_modules_to_forward_prefetch([fully_shard(nn.Linear(8, 8))])


def list_with_a_stranger(model: Model) -> None:
    fully_shard([model.norm, nn.Linear(8, 8)])
    fully_shard(model)


def placed(dim: Any, ranks: int = 2) -> Callable[[Model], None]:
    from torch.distributed.tensor import Replicate, Shard

    placement = Replicate() if dim is None else Shard(dim)

    def shard(model: Model) -> None:
        fully_shard(
            model,
            mesh=init_device_mesh((ranks,)),
            shard_placement_fn=lambda p: placement if p is model.head.weight else None,
        )

    return shard


@pytest.mark.provokes("FSDP-E0202", "FSDP-E0219", "FSDP-E0220", "FSDP-E0221")
@pytest.mark.parametrize(
    "annotate, text",
    [
        (scalar, "scale is a scalar, which cannot be sharded; make it a 1-D tensor"),
        (
            tied_across_units,
            "blocks.0.up.weight and blocks.1.up.weight are one parameter in two units, unit "
            "blocks.0 and unit blocks.1; shard both",
        ),
        (
            two_dtypes,
            r"the model's own unit has trainable parameters of float32 \(norm.weight\) and float64 "
            r"\(head.weight\); a unit has one dtype",
        ),
        (two_meshes, "have different meshes, .*; give all units the same"),
        (number_without_a_mesh, "reshard_after_forward is 3, which does not divide the 4 ranks"),
        (
            without_a_root,
            r"norm.weight is trainable and in no unit.*call fully_shard\(model\) last",
        ),
        (list_outermost, "the outermost unit is a list of modules"),
        (list_with_a_stranger, "a Linear in a list that is not a part of the model"),
        (prefetched_stranger, "own unit is to prefetch a module that is not a part of the model"),
        (placed(None), "shard_placement_fn gives Replicate.* for head.weight"),
        (placed(2), r"gives Shard\(dim=2\) for head.weight of shape \[3, 8\]; give Shard\(dim\)"),
        (placed(1, ranks=3), r"gives Shard\(1\) for head.weight.*8 does not divide by the 3 ranks"),
    ],
)
def test_what_fsdp2_refuses(
    annotate: Callable[[Model], None], text: str, tmp_path: pathlib.Path
) -> None:
    model = Model()
    annotate(model)
    with pytest.raises(ExportError, match=text):
        export(classify(model), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_frozen_parameter_of_another_dtype_is_fine(tmp_path: pathlib.Path) -> None:
    model = Model()
    model.scale = nn.Parameter(torch.ones(2, dtype=torch.float64), requires_grad=False)
    export(classify(shard_blocks(model)), tmp_path)
