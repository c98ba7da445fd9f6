"""Exports a step, reads the archive back, and holds it against eager PyTorch."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pathlib
import sys
import warnings
import zipfile
from typing import Any, Callable, Optional

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

import fsdp_mlir
from fsdp_mlir import TrainingStep
from fsdp_mlir.errors import ExportNote
from fsdp_mlir.export import export_step

Tensors = dict[str, torch.Tensor]


@dataclasses.dataclass
class Exported:
    metadata: dict[str, Any]
    module: Any  # the archive as torch.jit.load reads it
    weights: Tensors
    warnings: list[str]
    notes: list[str]

    def program(self, name: str = "step") -> dict[str, Any]:
        return self.metadata["programs"][name]

    @property
    def rules(self) -> list[dict[str, Any]]:
        return self.metadata["optimizer"]["rules"]

    def ops(self, name: str = "step") -> list[str]:
        return [node["op"] for node in self.program(name)["nodes"]]

    def results(self, role: str, name: str = "step") -> list[str]:
        results = self.program(name)["results"]
        return [result.get("fqn", "") for result in results if result["role"] == role]

    def run(self, name: str = "step", seed: int = 5) -> dict[tuple[str, str], torch.Tensor]:
        """Executes a program on the exported weights: result by role and name."""
        program = self.program(name)
        arguments = [self._argument(a, program["values"]) for a in program["arguments"]]
        torch.manual_seed(seed)
        with torch.no_grad(), torch.jit.optimized_execution(False):
            values = self.module._c._get_method(name)(*arguments)
        results = {}
        for result, value in zip(program["results"], values, strict=True):
            recorded = program["values"][result["name"]]
            assert list(value.shape) == recorded["shape"]
            assert list(value.stride()) == recorded["strides"]
            assert str(value.dtype) == f"torch.{recorded['dtype']}"
            results[result["role"], result.get("fqn", "")] = value
        return results

    def _argument(self, argument: dict[str, str], values: dict[str, Any]) -> torch.Tensor:
        recorded = values[argument["name"]]
        dtype = getattr(torch, recorded["dtype"])
        if argument["role"] == "cotangent":
            return torch.ones((), dtype=dtype)
        stored = {
            "input": f"fsdp.input.{argument['fqn']}",
            "buffer": f"fsdp.buffer.{argument['fqn']}",
        }.get(argument["role"], argument["fqn"])
        tensor = self.weights[stored if stored in self.weights else argument["fqn"]]
        # A copy of its own: where a tensor lies in a file decides the bits of some kernels.
        copy = torch.empty_strided(recorded["shape"], recorded["strides"], dtype=dtype)
        return copy.copy_(tensor)


def read(path: pathlib.Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("step/extra/fsdp.json"))


def export(step: TrainingStep, folder: pathlib.Path) -> Exported:
    path = folder / "step.pt"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        export_step(step, path, "a_step.py")
    messages = [str(w.message) for w in caught if w.category is UserWarning]
    notes = [str(w.message) for w in caught if w.category is ExportNote]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.load(path)
    weights = safetensors.torch.load_file(path.with_suffix(".safetensors"))
    return Exported(read(path), module, weights, messages, notes)


def assert_same_as_eager(step: TrainingStep, folder: pathlib.Path) -> Exported:
    """Loss, every gradient and every buffer, bit for bit."""
    exported = export(step, folder)
    results = exported.run()
    torch.manual_seed(5)
    step.model.zero_grad()
    loss = step.loss(step.model, **step.inputs)
    loss.backward()
    expected = {("loss", ""): loss.detach()}
    for name, parameter in step.model.named_parameters():
        if parameter.grad is not None:
            expected["gradient", name] = parameter.grad
    buffers = dict(step.model.named_buffers())
    for role, name in results:
        if role == "buffer_update":
            expected[role, name] = buffers[name]
    assert set(results) - set(expected) <= {key for key in results if key[0] == "output"}
    assert set(expected) <= set(results)
    for key, value in expected.items():
        assert torch.equal(results[key], value), key
    return exported


def compare(
    step: TrainingStep, exported: Exported, inputs: Tensors, tolerance: float = 0.0
) -> None:
    """Loss, gradients and buffers of the model's state of now and a batch, to the bit or within a
    tolerance; zeros where eager has no gradient."""
    before = {name: tensor.clone() for name, tensor in step.model.state_dict().items()}
    exported.weights.update(before)
    exported.weights.update({f"fsdp.input.{name}": tensor for name, tensor in inputs.items()})
    results = exported.run()
    torch.manual_seed(5)
    step.model.zero_grad()
    loss = step.loss(step.model, **inputs)
    loss.backward()
    expected = {("loss", ""): loss.detach()}
    for name, parameter in step.model.named_parameters():
        expected["gradient", name] = parameter.grad if parameter.grad is not None else parameter * 0
    for name, buffer in step.model.named_buffers():
        expected["buffer_update", name] = buffer.clone()
    step.model.load_state_dict(before)
    missed = {rule["missed"]: rule["parameters"][0] for rule in exported.rules}
    gradients = {name: p.grad for name, p in step.model.named_parameters()}
    for key, value in results.items():
        if key[0] == "has_gradient":
            assert value.item() is (gradients[missed[key[1]]] is not None), key
            continue
        is_equal = torch.equal(value, expected[key])
        assert is_equal or tolerance > 0 and (value - expected[key]).abs().max() <= tolerance, key


def sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    """It moves and decays a parameter whose gradient is zero, and leaves alone what has none."""
    return torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)


def cross_entropy(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


def asserting_cross_entropy(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    assert (y >= 0).all(), "a class below 0"  # here, since pytest rewrites asserts of tests
    return F.cross_entropy(model(x), y)


def installed(
    name: str, source: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """The module of a library that the user has installed."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(packages)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def classify(model: torch.nn.Module, width: int = 8, **options: Any) -> TrainingStep:
    """A step that classifies 4 samples of `width` numbers into 3 classes."""
    generator = torch.Generator().manual_seed(1)
    inputs = {
        "x": torch.randn(4, width, generator=generator),
        "y": torch.randint(3, (4,), generator=generator),
    }
    options.setdefault("loss", cross_entropy)
    options.setdefault("inputs", inputs)
    return TrainingStep(model=model, optimizer=options.pop("optimizer", sgd(model)), **options)


def assert_trains_as_eager(
    make: Callable[[], torch.nn.Module],
    loss: Callable[..., torch.Tensor] = cross_entropy,
    batches: Optional[list[Tensors]] = None,
) -> None:
    """The losses of steps that classify, and what they leave in the states, bit by bit; there is a note.
    `make` gives the model, and resets what is beside it."""
    torch.manual_seed(7)
    if batches is None:
        batches = [{"x": torch.randn(4, 8), "y": torch.randint(3, (4,))} for _ in range(7)]
    model = _seeded(make)
    optimizer, losses = adamw(model), []
    for batch in batches:
        value = loss(model, **batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(value.item())
    model_of_step = _seeded(make)
    step = classify(model_of_step, loss=loss, optimizer=adamw(model_of_step), inputs=batches[0])
    with pytest.warns(ExportNote), fsdp_mlir.compile(step) as run:
        assert [run(batch) for batch in batches] == losses
        states = run.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(states[name], tensor), name


def _seeded(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    torch.manual_seed(0)
    return make()
