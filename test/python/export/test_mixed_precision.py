"""Tests that units are captured in the dtypes of their MixedPrecisionPolicy, as FSDP2 casts."""

import collections
import pathlib
from typing import Any, Iterator

import pytest
import torch
import torch.distributed as dist
from exporting import Exported, classify, export, sgd
from torch import nn
from torch.distributed import fsdp
from torch.utils._python_dispatch import TorchDispatchMode

import fsdp_mlir
from fsdp_mlir import ExportError, MixedPrecisionPolicy, TrainingStep, fully_shard

BF16 = MixedPrecisionPolicy(torch.bfloat16, torch.float32)


class Block(nn.Module):
    """It takes and gives a dictionary, and checks that its input and its parameters are `expected`."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("scale", torch.ones(8))
        self.expected = torch.bfloat16

    def forward(self, x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        assert x["x"].dtype == self.up.weight.dtype == self.expected
        assert self.scale.dtype == torch.float32
        return {"x": self.norm(self.up(x["x"])).relu() + x["x"]}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = {"x": x}
        for block in self.blocks:
            values = block(values)
        return self.head(values["x"])


def annotated(api: Any, model: nn.Module, **policy: Any) -> nn.Module:
    """The same policy for the model's blocks and for the rest."""
    for module in (*model.blocks, model):
        api.fully_shard(module, mp_policy=api.MixedPrecisionPolicy(**policy))
    return model


def dtypes(exported: Exported, role: str) -> dict[str, str]:
    program = exported.program()
    entries = [e for e in program["arguments"] + program["results"] if e["role"] == role]
    return {e.get("fqn", ""): program["values"][e["name"]]["dtype"] for e in entries}


@pytest.fixture(scope="module")
def one_rank() -> Iterator[None]:
    """A process group of this process alone, for FSDP2."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Casts(TorchDispatchMode):
    """Counts the casts of what runs inside, by dtypes and shape."""

    def __init__(self) -> None:
        super().__init__()
        self.found: collections.Counter[Any] = collections.Counter()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = op(*args, **(kwargs or {}))
        cast = op is torch.ops.aten._to_copy.default and result.dtype != args[0].dtype
        if cast and result.dim() != 1:  # shards of parameters are cast in front of their gather
            self.found[str(result.dtype), tuple(result.shape)] += 1
        return result


def captured_casts(exported: Exported) -> collections.Counter[Any]:
    program = exported.program()
    found: collections.Counter[Any] = collections.Counter()
    for node in program["nodes"]:
        if node["op"] == "aten::_to_copy":
            value = program["values"][node["results"][0]]
            if len(value["shape"]) != 1:
                found["torch." + value["dtype"], tuple(value["shape"])] += 1
    return found


def llama(api: Any, policy: dict[str, Any], roots: dict[str, Any]) -> TrainingStep:
    """`roots` is what the root's policy has besides."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        use_cache=False,
    )
    model = transformers.LlamaForCausalLM(config)
    for layer in model.model.layers:
        api.fully_shard(layer, mp_policy=api.MixedPrecisionPolicy(**policy))
    api.fully_shard(model, mp_policy=api.MixedPrecisionPolicy(**policy, **roots))
    tokens = torch.randint(32, (2, 6))

    def loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=tokens).logits  # all that the model gives is read
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    return TrainingStep(model, loss, sgd(model), {"tokens": tokens})


@pytest.mark.parametrize(
    "policy, roots",
    [
        ({"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}, {}),
        ({"param_dtype": torch.bfloat16}, {"output_dtype": torch.float32}),
        ({"param_dtype": torch.float16, "cast_forward_inputs": False}, {}),
    ],
)
def test_a_llamas_casts_are_fsdp2s(
    policy: dict[str, Any], roots: dict[str, Any], tmp_path: pathlib.Path, one_rank: None
) -> None:
    exported = export(llama(fsdp_mlir, policy, roots), tmp_path)
    theirs = llama(fsdp, policy, roots)
    theirs.loss(theirs.model, **theirs.inputs).backward()  # sets FSDP2 up
    with Casts() as casts:
        theirs.loss(theirs.model, **theirs.inputs).backward()
    assert casts.found == captured_casts(exported) and casts.found


def test_a_unit_computes_in_its_dtype(tmp_path: pathlib.Path) -> None:
    """Python code sees the dtype (Block checks it), gradients have it, and states and buffers keep their own."""
    model = annotated(fsdp_mlir, Model(), param_dtype=torch.bfloat16)
    exported = export(classify(model), tmp_path)
    assert set(dtypes(exported, "parameter").values()) == {"bfloat16"}
    assert set(dtypes(exported, "gradient").values()) == {"bfloat16"}
    assert {p["dtype"] for p in exported.metadata["parameters"]} == {"float32"}
    assert {b["dtype"] for b in exported.metadata["buffers"]} == {"float32"}
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert exported.metadata["units"][1]["param_dtype"] == "bfloat16"


def test_each_unit_has_its_own_policy(tmp_path: pathlib.Path) -> None:
    model = Model()
    model.blocks[0].expected = torch.float32
    inner = MixedPrecisionPolicy(torch.float32, output_dtype=torch.bfloat16)
    fully_shard(model.blocks[0], mp_policy=inner)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32))
    exported = export(classify(model), tmp_path)
    parameters = dtypes(exported, "parameter")
    assert parameters["blocks.0.up.weight"] == "float32"
    assert parameters["blocks.1.up.weight"] == "bfloat16"
    assert dtypes(exported, "loss") == {"": "float32"}


@pytest.mark.parametrize("cast", (True, False))
def test_inputs_are_cast_unless_the_policy_says_no(cast: bool, tmp_path: pathlib.Path) -> None:
    model = Model()
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=cast)
    for module in (*model.blocks, model):
        fully_shard(module, mp_policy=policy)
    if cast:
        export(classify(model), tmp_path)
        return
    with pytest.raises(ExportError, match="the step cannot be captured.*FSDP-E0208"):
        export(classify(model), tmp_path)


def test_a_product_of_two_dtypes_is_refused(tmp_path: pathlib.Path) -> None:
    """As FSDP2 refuses it in its first step: what one unit gives out, the next one does not cast."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    fully_shard(model[0], mp_policy=BF16)
    fully_shard(model)
    text = "addmm is given torch.bfloat16 and torch.float32, and PyTorch has no product of two dtyp"
    with pytest.raises(ExportError, match=rf"\.py:\d+: {text}.*output_dtype"):
        export(classify(model), tmp_path)


def test_frozen_parameters_of_another_dtype_are_cast_too(tmp_path: pathlib.Path) -> None:
    model = Model()
    model.head.requires_grad_(False).double()
    exported = export(classify(annotated(fsdp_mlir, model, **BF16.casts)), tmp_path)
    assert dtypes(exported, "parameter")["head.weight"] == "bfloat16"


def test_ignored_parameters_keep_their_dtype(tmp_path: pathlib.Path) -> None:
    model = Model()
    model.head.forward = lambda x: x.float() @ model.head.weight.t()
    model.head.requires_grad_(False)
    fully_shard(model, mp_policy=BF16, ignored_params=set(model.head.parameters()))
    exported = export(classify(model), tmp_path)
    parameters = dtypes(exported, "parameter")
    assert parameters["head.weight"] == "float32"
    assert parameters["blocks.0.up.weight"] == "bfloat16"


def test_a_list_casts_what_its_first_takes_and_its_last_gives(tmp_path: pathlib.Path) -> None:
    model = Model()
    policy = MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float64)
    fully_shard([*model.blocks], mp_policy=policy)
    fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.float64))
    exported = export(classify(model), tmp_path)
    [cast] = [shape for dtype, shape in captured_casts(exported) if dtype == "torch.float64"]
    assert cast == (4, 8)


def test_methods_that_are_forwards_cast_too(tmp_path: pathlib.Path) -> None:
    class Coder(Block):
        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self({"x": self.norm(x)})["x"]

    model = Model()
    model.blocks[0] = fully_shard(Coder(), mp_policy=BF16)
    fsdp_mlir.register_fsdp_forward_method(model.blocks[0], "encode")
    model.forward = lambda x, coder=model.blocks[0]: coder.encode(x)
    export(classify(fully_shard(model)), tmp_path)
    assert "encode" not in vars(model.blocks[0])


def test_metrics_share_the_forward(tmp_path: pathlib.Path) -> None:
    """Also where the model's inputs are cast."""

    def metrics(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"right": (model(x).argmax(-1) == y).float().mean()}

    model = annotated(fsdp_mlir, Model(), param_dtype=torch.bfloat16)
    exported = export(classify(model, metrics=metrics), tmp_path)
    assert exported.ops().count("aten::native_layer_norm") == 2 and exported.warnings == []


def test_a_parameter_read_past_its_module_is_refused(tmp_path: pathlib.Path) -> None:
    model = Model()
    weights = [model.head.weight]
    loss = lambda model, x, y: model(x).sum() + weights[0].sum()
    annotated(fsdp_mlir, model, param_dtype=torch.bfloat16)
    with pytest.raises(ExportError, match="reads head.weight from somewhere else than its module"):
        export(classify(model, loss=loss), tmp_path)


def test_float16_without_a_scale_is_a_warning(tmp_path: pathlib.Path) -> None:
    model = annotated(fsdp_mlir, Model(), param_dtype=torch.float16)
    for block in model.blocks:
        block.expected = torch.float16
    [warning] = export(classify(model), tmp_path).warnings
    assert "blocks.0.up.weight is trainable and computed with in float16" in warning
