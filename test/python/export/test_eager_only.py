"""Tests that what a script does beside its loss is refused or told: it would be lost in a plan."""

import pathlib
from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from exporting import assert_same_as_eager, classify, export, sgd
from torch import nn

from fsdp_mlir import ExportError


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def test_two_parameters_over_the_same_memory(tmp_path: pathlib.Path) -> None:
    """PyTorch's optimizer would update it twice."""
    model = two_layers()
    model[2].weight.data = model[0].weight.data
    with pytest.raises(ExportError, match="0.weight and 2.weight are two parameters over the same"):
        export(classify(model), tmp_path)


@pytest.mark.parametrize("frozen", ["parameter", "buffer", "attribute"])
def test_a_tensor_over_a_parameters_memory_is_that_parameter(
    tmp_path: pathlib.Path, frozen: str
) -> None:
    class Model(nn.Linear):
        def __init__(self) -> None:
            super().__init__(8, 8)
            if frozen == "parameter":
                self.same = nn.Parameter(self.weight.data, requires_grad=False)
            elif frozen == "buffer":
                self.register_buffer("same", self.weight.data)
            else:
                self.same = self.weight.data

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) @ self.same

    model = Model()
    trained = torch.optim.SGD([model.weight, model.bias], lr=0.1)
    exported = assert_same_as_eager(classify(model, optimizer=trained), tmp_path)
    arguments = exported.program()["arguments"]
    # One argument: an importer takes each state once.
    assert [a["fqn"] for a in arguments if a["role"] == "parameter"] == ["weight", "bias"]
    assert exported.metadata["buffers"] == [] and exported.metadata["constants"] == []
    aliases = {p["fqn"]: p["aliases"] for p in exported.metadata["parameters"]}
    assert aliases["weight"] == ([] if frozen == "attribute" else ["same"])


@pytest.mark.provokes("FSDP-E0214")
def test_a_part_of_a_parameters_memory(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    model.register_buffer("row", model.weight.data[1])
    with pytest.raises(ExportError, match="weight and row share memory without being one tensor"):
        export(classify(model), tmp_path)


def test_parts_of_one_memory_that_do_not_meet(tmp_path: pathlib.Path) -> None:
    model = two_layers()
    whole = torch.randn(8, 16)
    model[0].weight.data, model[2].weight.data = whole[:, :8], whole[:, 8:]
    assert_same_as_eager(classify(model), tmp_path)


def test_a_buffer_that_changes_with_another(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    model[2].running_mean = model[1].running_mean[:]
    with pytest.raises(
        ExportError, match="changes in place the memory of 1.running_mean, which is an"
    ):
        export(classify(model), tmp_path)


def test_a_replaced_step_of_the_optimizer(tmp_path: pathlib.Path) -> None:
    model = nn.Linear(8, 3)
    optimizer = sgd(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)  # wraps it, and changes nothing
    export(classify(model, optimizer=optimizer, lr_schedule=schedule, steps=2), tmp_path)
    original = optimizer.step
    optimizer.step = lambda: original()
    with pytest.raises(ExportError, match="the optimizer's step is replaced"):
        export(classify(model, optimizer=optimizer), tmp_path)


def test_a_model_in_eval_mode_is_a_warning(tmp_path: pathlib.Path) -> None:
    exported = assert_same_as_eager(classify(nn.Linear(8, 3).eval()), tmp_path)
    assert any("the whole model is in eval()" in text for text in exported.warnings)


SCALER = torch.amp.GradScaler("cpu")


def calls_backward(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = F.cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    return loss


def hooks_a_parameter(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    model.weight.register_hook(lambda gradient: gradient * 2)
    return F.cross_entropy(model(x), y)


def seeds(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(7)
    return F.cross_entropy(model(x + torch.randn_like(x)), y)


def draws_again(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    x = F.dropout(x, 0.5)
    torch.set_rng_state(state)
    return F.cross_entropy(model(x + F.dropout(x, 0.5)), y)


def draws_apart(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        x = F.dropout(x, 0.5)
    return F.cross_entropy(model(x + F.dropout(x, 0.5)), y)


def scales(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return SCALER.scale(F.cross_entropy(model(x), y))


@pytest.mark.parametrize(
    "loss, text",
    [
        (scales, r"^test_eager_only.py:\d+: the loss calls scale\(\) of a GradScaler"),
        (seeds, r"^test_eager_only.py:\d+: the loss calls torch.manual_seed\(\)"),
        (draws_again, r"^test_eager_only.py:\d+: the step sets the state of PyTorch's generator"),
        (draws_apart, r"^test_eager_only.py:\d+: the step sets the state of PyTorch's generator"),
        (
            calls_backward,
            r"^test_eager_only.py:\d+: the loss calls backward\(\).*torch.autograd.grad",
        ),
        (hooks_a_parameter, r"^test_eager_only.py:\d+: the loss gives a parameter a hook"),
    ],
)
def test_what_no_plan_does_beside_the_loss(
    tmp_path: pathlib.Path, loss: Callable, text: str
) -> None:
    with pytest.raises(ExportError, match=text):
        export(classify(nn.Linear(8, 3), loss=loss), tmp_path)


def test_a_state_of_the_generator_that_nothing_is_drawn_by(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng():
            return F.cross_entropy(model(x), y)

    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


@pytest.mark.parametrize("by_the_model", [False, True])
def test_a_batch_that_the_step_writes_into_is_a_note(
    tmp_path: pathlib.Path, by_the_model: bool
) -> None:
    """An eager step that is given it again finds what was written."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[:, :3] = model(x.clone()) if by_the_model else 1
        return F.cross_entropy(model(x), y)

    notes = export(classify(nn.Linear(8, 3), loss=loss), tmp_path).notes
    assert [note for note in notes if "the step writes into its batch, and a plan leaves" in note]


def test_a_hook_on_what_the_model_computes(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = model(x)
        logits.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        return F.cross_entropy(logits, y)

    assert_same_as_eager(classify(nn.Linear(8, 3), loss=loss), tmp_path)


HISTORY: list[Any] = []


def test_python_state_beside_the_model_is_a_warning(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        HISTORY.append(1)
        return F.cross_entropy(model(x), y)

    exported = export(classify(nn.Linear(8, 3), loss=loss), tmp_path)
    assert any("changes Python state of HISTORY" in text for text in exported.warnings)
    assert HISTORY == []


def test_functional_call_changes_no_state(tmp_path: pathlib.Path) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        halves = {name: value / 2 for name, value in model.named_parameters()}
        return F.cross_entropy(torch.func.functional_call(model, halves, (x,)), y)

    step = classify(nn.Sequential(nn.Linear(8, 3)), loss=loss)
    assert assert_same_as_eager(step, tmp_path).warnings == []


def test_what_programs_have_in_common_is_said_once(tmp_path: pathlib.Path) -> None:
    """Dynamo's own filters make Python forget that it has said it."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        HISTORY.append(1)
        return F.cross_entropy(model(x), y)

    whole, half = ({"x": torch.ones(n, 8), "y": torch.zeros(n, dtype=torch.long)} for n in (4, 2))
    step = classify(nn.Linear(8, 3), loss=loss, inputs=[whole, half], eval_data=whole)
    exported = export(step, tmp_path)
    assert len(exported.metadata["programs"]) == 4
    assert len(exported.warnings) == 1


@pytest.mark.parametrize(
    "mode, words",
    (
        (lambda: torch.autocast("cpu", torch.bfloat16), "under torch.autocast, .* into the loss"),
        (torch.inference_mode, "under torch.inference_mode, .* leave it before"),
    ),
)
def test_modes_around_an_export(mode: Any, words: str, tmp_path: pathlib.Path) -> None:
    step = classify(two_layers())
    with mode(), pytest.raises(ExportError, match=words):
        export(step, tmp_path)
    with torch.no_grad():
        export(step, tmp_path)
