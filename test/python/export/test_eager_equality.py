"""Tests that an exported step computes what eager PyTorch computes, bit for bit."""

import contextlib
import functools
import pathlib
import random
import sys
import threading
import types
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from exporting import asserting_cross_entropy, assert_same_as_eager, classify, export, sgd
from torch import nn
from torch.utils.checkpoint import checkpoint

from fsdp_mlir import ExportError, TrainingStep


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


class Straight(torch.autograd.Function):
    """Rounds, and lets gradients pass, doubled."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


class InPlace(Straight):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        return y.round_()


class Filled(Straight):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        y[:] = x.round()
        return y


class Out(Straight):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        torch.round(x, out=y)
        return y


class Added(Straight):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        y += x.round()
        return y


class InPlaceByArgument(Straight):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x.clone(), inplace=True)


@pytest.mark.parametrize("in_checkpoint", [False, True])
@pytest.mark.parametrize("function", [InPlace, Filled, Out, Added, InPlaceByArgument])
def test_an_autograd_function_that_writes_what_it_gives(
    function: Any, in_checkpoint: bool, tmp_path: pathlib.Path
) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            if in_checkpoint:
                return self.last(checkpoint(function.apply, x, use_reentrant=False))
            return self.last(function.apply(x))

    assert_same_as_eager(classify(Model()), tmp_path)


def test_an_autograd_function(tmp_path: pathlib.Path) -> None:
    loss = lambda model, x, y: F.cross_entropy(Straight.apply(model(x)), y)
    exported = assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    assert exported.notes == []


def test_distributions_do_not_look_at_values(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        normal = torch.distributions.Normal(model(x), x[:, :3].exp())
        categorical = torch.distributions.Categorical(logits=normal.rsample())
        return -categorical.log_prob(y).mean() - categorical.entropy().mean()

    exported = assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    (said,) = exported.notes
    assert said.startswith("test_eager_equality.py:") and "are not checked" in said


def test_asserts_on_values_are_left_out(tmp_path: pathlib.Path) -> None:
    step = classify(nn.Linear(8, 3), loss=asserting_cross_entropy)
    (said,) = assert_same_as_eager(step, tmp_path).notes
    assert said.startswith("exporting.py:") and "asserts on values are left out" in said


def test_numbers_beside_tensors_without_dimensions(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y) / (x.std() + 1e-8)
        loss = loss + torch.add(0.3333, x > 0, alpha=0.6667).mean()  # of truth values
        return loss + 0.5 - (1 - x.mean()) - 1e-8 + torch.add(x.mean(), 2.5, alpha=3)

    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


def test_batch_norm_updates_its_buffers(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))
    exported = assert_same_as_eager(classify(model), tmp_path)
    names = ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert sorted(exported.results("buffer_update")) == sorted(names)


def test_batch_norm_over_all_batches(tmp_path: pathlib.Path) -> None:
    """Its averages up to rounding, in the second batch too."""
    model = nn.Sequential(nn.Linear(8, 7), nn.BatchNorm1d(7, momentum=None), nn.Linear(7, 3))
    model[1].num_batches_tracked.fill_(1)
    step = classify(model)
    results = export(step, tmp_path).run()
    step.loss(step.model, **step.inputs)
    for name, buffer in step.model.named_buffers():
        torch.testing.assert_close(results["buffer_update", name], buffer)


def test_models_of_transformers_draw_for_layers_in_python(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that a number of Python's, which MusicGen draws without LayerDrop too, is no refusal."""
    library = types.ModuleType("transformers.models.drops")
    library.random = random
    monkeypatch.setitem(sys.modules, library.__name__, library)

    class Drops(nn.Linear):
        layerdrop = 0.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            skips = library.random.uniform(0, 1) < self.layerdrop
            return x if skips else super().forward(x)

    Drops.__module__ = library.__name__
    assert_same_as_eager(classify(nn.Sequential(Drops(8, 8), nn.Linear(8, 3))), tmp_path)


def test_models_of_transformers_run_every_layer(tmp_path: pathlib.Path) -> None:
    class Drops(nn.Linear):
        layerdrop = 0.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            skips = self.layerdrop > 0 and torch.rand([]) < self.layerdrop
            return x if skips else super().forward(x)

    Drops.__module__ = "transformers.models.drops"
    model = nn.Sequential(Drops(8, 8), nn.Linear(8, 3))
    model[0].layerdrop = 0.5
    exported = export(classify(model), tmp_path)
    assert "gradient 0.weight" in map(" ".join, exported.run()) and model[0].layerdrop == 0.5
    assert [n for n in exported.notes if "LayerDrop is off" in n]


def test_tied_weights_are_one_parameter(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
    model[2].weight = model[0].weight
    exported = assert_same_as_eager(classify(model), tmp_path)
    (parameter,) = exported.metadata["parameters"]
    assert (parameter["fqn"], parameter["aliases"]) == ("0.weight", ["2.weight"])
    assert exported.results("gradient") == ["0.weight"]


@pytest.mark.parametrize("kept", [False, True], ids=["", "its result is kept in an attribute"])
def test_a_module_used_under_two_paths(tmp_path: pathlib.Path, kept: bool) -> None:
    shared = nn.Linear(8, 8)
    if kept:
        shared.register_forward_hook(lambda module, args, result: setattr(module, "last", result))
    exported = assert_same_as_eager(classify(nn.Sequential(shared, nn.Tanh(), shared)), tmp_path)
    aliases = {module["path"]: module["aliases"] for module in exported.metadata["modules"]}
    assert aliases == {"": [], "0": ["2"], "1": []}
    assert {node["module"] for node in exported.program()["nodes"]} == {"", "0", "1"}


def test_frozen_parameters_have_no_gradient(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    exported = assert_same_as_eager(classify(model), tmp_path)
    assert exported.results("gradient") == ["2.weight", "2.bias"]
    trainable = [parameter["trainable"] for parameter in exported.metadata["parameters"]]
    assert trainable == [False, False, True, True]


def test_an_unreached_parameter_is_a_warning_by_name(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    model.unused = nn.Parameter(torch.ones(2))
    exported = assert_same_as_eager(classify(model), tmp_path)
    assert [text for text in exported.warnings if text.startswith("unused is trainable")]
    assert exported.results("gradient") == ["weight", "bias"]


TABLE = torch.linspace(0, 1, 8)


def test_tensors_of_the_code_are_constants(tmp_path: pathlib.Path) -> None:
    class Constants(nn.Linear):
        def __init__(self) -> None:
            super().__init__(8, 3)
            self.plain = torch.full((8,), 0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x * TABLE + self.plain * torch.tensor([3.0]))

    exported = assert_same_as_eager(classify(Constants()), tmp_path)
    names = [constant["fqn"] for constant in exported.metadata["constants"]]
    assert names == ["fsdp.constant.0", "fsdp.constant.1", "fsdp.constant.2"]


def test_buffers_that_state_dict_lacks(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    model.register_buffer("mask", torch.arange(3.0), persistent=False)
    step = classify(model, loss=lambda model, x, y: (model(x) * model.mask).sum())
    exported = assert_same_as_eager(step, tmp_path)
    assert "fsdp.buffer.mask" in exported.weights and "mask" not in exported.weights
    assert exported.metadata["buffers"][0]["persistent"] is False


def test_inputs_that_share_storage_stay_two_inputs(tmp_path: pathlib.Path) -> None:
    x = torch.randn(4, 8)
    step = classify(
        nn.Linear(8, 8),
        inputs={"x": x, "y": x},
        loss=lambda model, x, y: F.mse_loss(model(x), y),
    )
    exported = assert_same_as_eager(step, tmp_path)
    inputs = [a["fqn"] for a in exported.program()["arguments"] if a["role"] == "input"]
    assert inputs == ["x", "y"]


def test_an_input_that_the_loss_does_not_use(tmp_path: pathlib.Path) -> None:
    step = classify(nn.Linear(8, 3), loss=lambda model, x, y: model(x).square().mean())
    exported = assert_same_as_eager(step, tmp_path)
    inputs = [a["fqn"] for a in exported.program()["arguments"] if a["role"] == "input"]
    assert inputs == ["x", "y"]


def test_numbers_in_a_tensors_place(tmp_path: pathlib.Path) -> None:
    class Numbers(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x.double() * 2.3 - 1).float() / 3 + 1e-300
            y = y.masked_fill(y > 9, float("-inf")).clamp(min=-5)
            return torch.where(y > 0, y, 2) + torch.where(y > 1, True, False) * 0.25

    model = Numbers(8, 3).double()
    step = classify(model, loss=lambda model, x, y: model(x).clamp(max=9).mean())
    assert_same_as_eager(step, tmp_path)


def test_what_torchscript_reads_as_another_operator(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        other_way_round = torch.rsub(model(x), x[:, :3], alpha=2.5) * (1 - x[:, 3:6])
        return (torch.linalg.pinv(model(x)) @ other_way_round).mean()

    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


def test_views_splits_and_in_place_ops(tmp_path: pathlib.Path) -> None:
    class Views(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b, c = super().forward(x).split([2, 3, 3], dim=1)
            parts = torch.chunk(b * c, 3, dim=1)
            y = torch.cat([a, parts[2], x[:, :1].unfold(0, 2, 2).reshape(2, 2).repeat(2, 1)], 1)
            y[:, 0] += 1.0
            y.mul_(2)
            return y[torch.tensor([3, 0, 1, 2])].t().contiguous().t()

    assert_same_as_eager(classify(Views(8, 8)), tmp_path)


def test_boolean_and_integer_inputs(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, mask: torch.Tensor, index: torch.Tensor):
        return model(x).masked_fill(mask, 0.0).gather(1, index).sum()

    inputs = {
        "x": torch.randn(4, 8),
        "mask": torch.rand(4, 3) > 0.5,
        "index": torch.randint(3, (4, 2)),
    }
    exported = assert_same_as_eager(classify(nn.Linear(8, 3), inputs=inputs, loss=loss), tmp_path)
    assert [i["dtype"] for i in exported.metadata["inputs"]] == ["float32", "bool", "int64"]


def test_autocast(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(model(x), y)

    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


@pytest.mark.provokes("FSDP-E0222")
@pytest.mark.parametrize("runs", [False, True])
def test_an_autocast_of_another_device(tmp_path: pathlib.Path, runs: bool) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor, on: bool = True) -> torch.Tensor:
        lock = threading.Lock() if runs else contextlib.nullcontext()  # Dynamo does not follow it
        with lock, torch.autocast("cuda", torch.bfloat16, enabled=on):
            return F.cross_entropy(model(x), y)

    text = r"test_eager_equality.py:\d+: .* under torch.autocast\('cuda'\).* write torch.autocast\(\"cpu"
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    off = functools.partial(loss, on=False)
    assert_same_as_eager(classify(nn.Linear(8, 3), loss=off), tmp_path)


def test_the_loss_may_be_a_view(tmp_path: pathlib.Path) -> None:
    step = classify(nn.Linear(8, 3), loss=lambda model, x, y: model(x).sum(0).sum(0, True)[0])
    assert_same_as_eager(step, tmp_path)


def test_metrics_share_the_forward_and_give_no_gradient(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    step = classify(
        model,
        metrics=lambda model, x, y: {
            "accuracy": (model(x).argmax(-1) == y).float().mean(),
            "norm": model(x).norm(),
        },
    )
    exported = assert_same_as_eager(step, tmp_path)
    assert exported.results("output") == ["accuracy", "norm"]
    assert exported.ops().count("aten::addmm") == 1
    assert exported.ops().count("aten::bernoulli") == 1
    assert "forward" not in vars(model)


def test_a_loss_that_calls_its_model_twice(tmp_path: pathlib.Path) -> None:
    """Metrics share the first forward; the loss's own stay two, each with a mask of its own."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        first, second = model(x), model(x)
        return F.cross_entropy(first, y) + F.mse_loss(first, second)

    step = classify(
        nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)),
        loss=loss,
        metrics=lambda model, x, y: {"accuracy": (model(x).argmax(-1) == y).float().mean()},
    )
    exported = assert_same_as_eager(step, tmp_path)
    assert exported.ops().count("aten::bernoulli") == 2


def test_eval_is_the_forward_in_eval_mode(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    x, y = torch.randn(9, 8), torch.randint(3, (9,))
    step = classify(model, eval_data={"x": x, "y": y})
    exported = export(step, tmp_path)
    assert model.training and model[2].training
    (result,) = exported.run("eval").values()
    model.eval()
    with torch.no_grad():
        assert torch.equal(result, step.loss(model, **step.inputs))
    assert exported.results("buffer_update", "eval") == []
    assert {node["phase"] for node in exported.program("eval")["nodes"]} == {"forward"}


def test_a_layer_left_in_eval_mode(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3))
    model[1].eval()
    exported = assert_same_as_eager(classify(model), tmp_path)
    assert exported.results("buffer_update") == []


def test_another_step_after_one_of_another_size(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    for batch in (4, 5, 7):
        inputs = {"x": torch.randn(batch, 8), "y": torch.randint(3, (batch,))}
        step = TrainingStep(model, lambda model, x, y: model(x).mean(), sgd(model), inputs)
        assert_same_as_eager(step, tmp_path)


def test_another_default_dtype(tmp_path: pathlib.Path) -> None:
    """What the step makes has it in a run, too, which has a default of its own."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64)
        table = torch.ones(8) / 3 + torch.rand(8) + torch.linspace(0, 1, 8)
        torch.set_default_dtype(torch.float32)
        return F.cross_entropy(model((x * table).float()), y)

    program = assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path).program()
    made = {n["op"]: n for n in program["nodes"] if n["op"] in ("aten::ones", "aten::linspace")}
    assert len(made) == 2
