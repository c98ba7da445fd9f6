"""A training step around one operator sample of PyTorch's `op_db`:

    python -m fsdp_mlir.export -o step.pt test/numerics/ops/op_step.py --op=addmm

The sample's differentiable tensors are parameters, the others buffers. Every
output is copied into a buffer, so that `--save` shows it, and enters the loss
with weights that differ from element to element, so that no gradient is
constant.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import warnings
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cases import Case, entry, sample  # noqa: E402

# Large, so that the updated parameter keeps the gradient's last bits.
LEARNING_RATE = 1024.0


class _Slot:
    """Stands for tensor number `index` in a sample's arguments."""

    def __init__(self, index: int):
        self.index = index


def _fill(template: Any, tensors: list[torch.Tensor]) -> Any:
    """`template` with its slots replaced."""
    if isinstance(template, _Slot):
        return tensors[template.index]
    if type(template) is tuple:
        return tuple([_fill(item, tensors) for item in template])
    if type(template) is list:
        return [_fill(item, tensors) for item in template]
    if type(template) is dict:
        return {key: _fill(item, tensors) for key, item in template.items()}
    return template


def _flatten(value: Any) -> list[torch.Tensor]:
    """The tensors of an operator's result; numbers become tensors."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            value = value.to_dense()
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _flatten(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _flatten(item)]
    if isinstance(value, (bool, int, float)):
        return [torch.full((), value)]
    return []


def _weights(shape: torch.Size) -> torch.Tensor:
    """Values in [0.5, 1.5) without a pattern along any dimension."""
    count = torch.arange(shape.numel(), dtype=torch.float64)
    return (0.5 + (count * 0.6180339887498949) % 1.0).to(torch.float32).reshape(shape)


class OpModule(nn.Module):
    """Applies the operator to its parameters and buffers; gives the loss.

    `tame` keeps infinities and NaN of the outputs out of the loss.
    """

    def __init__(self, case: Case, differentiate: bool, tame: bool = False):
        super().__init__()
        info = entry(case.op, case.variant)
        one = sample(case)
        self.op = info.op
        if case.op.startswith("__"):
            # The class's own slot; Python code calls the instance's.
            self.op = lambda x, *args, **kwargs: getattr(x, case.op)(*args, **kwargs)
        elif case.op in ("cfloat", "cdouble"):
            self.op = lambda x, *args, **kwargs: getattr(x, case.op)(*args, **kwargs)
        self.tame = tame
        self.names: list[str] = []
        self.outputs = 0
        self._slots: dict[int, _Slot] = {}
        self.template = (
            self._take(one.input, differentiate),
            self._take(tuple(one.args), differentiate),
            self._take(dict(one.kwargs), differentiate),
        )
        self.unused = nn.Parameter(torch.tensor([0.5]))

    def _take(self, value: Any, differentiate: bool) -> Any:
        """Registers the tensors inside `value`; gives the template."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._slots:
                slot = _Slot(len(self.names))
                self._slots[id(value)] = slot
                own = value.detach()
                if own.layout == torch.strided:
                    own = own.clone(memory_format=torch.contiguous_format)
                if differentiate and value.requires_grad:
                    self.names.append(f"p{slot.index}")
                    setattr(self, self.names[-1], nn.Parameter(own))
                else:
                    self.names.append(f"b{slot.index}")
                    self.register_buffer(self.names[-1], own)
            return self._slots[id(value)]
        if type(value) in (tuple, list):
            return type(value)(self._take(item, differentiate) for item in value)
        if type(value) is dict:
            return {key: self._take(item, differentiate) for key, item in value.items()}
        return value

    def add_outputs(self, results: list[torch.Tensor]) -> None:
        """Makes the buffers that hold the outputs and their weights."""
        self.outputs = len(results)
        for number, result in enumerate(results):
            shape = result.shape
            self.register_buffer(f"out{number}", torch.zeros(shape, dtype=result.dtype))
            if result.is_complex():
                shape = torch.Size([*shape, 2])
            self.register_buffer(f"w{number}", _weights(shape))

    def results(self) -> list[torch.Tensor]:
        tensors = [getattr(self, name) for name in self.names]
        first, args, kwargs = _fill(self.template, tensors)
        return _flatten(self.op(first, *args, **kwargs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = self.results()
        loss = (self.unused * x).sum()
        for number in range(self.outputs):
            result = results[number]
            getattr(self, f"out{number}").copy_(result.detach())
            if result.is_complex():
                result = torch.view_as_real(result.resolve_conj())
            if result.is_floating_point():
                if self.tame:
                    result = torch.nan_to_num(result, 0.0, 1.0, -1.0)
                weighted = result * getattr(self, f"w{number}")
                loss = loss + weighted.sum().to(torch.float32)
        return loss


class NotComparable(Exception):
    """Eager PyTorch itself does not run the sample as a training step."""


def _build(case: Case, differentiate: bool, tame: bool) -> OpModule:
    model = OpModule(case, differentiate, tame)
    torch.manual_seed(0)
    with torch.no_grad():
        results = OpModule(case, False).results()
    model.add_outputs(results)
    return model


def _finite(case: Case, differentiate: bool, tame: bool) -> bool:
    """Runs a throw-away model; says whether its loss is finite."""
    model = _build(case, differentiate, tame)
    torch.manual_seed(0)
    loss = model(torch.ones(1))
    loss.backward()
    return bool(torch.isfinite(loss))


def make_model(case: Case) -> OpModule:
    """The model of a case: differentiable if eager can, tame if it must be.

    Raises NotComparable where eager PyTorch cannot run it at all.
    """
    failure: Exception | None = None
    for differentiate in (True, False):
        try:
            tame = not _finite(case, differentiate, False)
            if tame and not _finite(case, differentiate, True):
                raise NotComparable("the loss is not finite")
            return _build(case, differentiate, tame)
        except Exception as error:
            failure = error
    raise NotComparable(f"eager: {failure}")


def training_step(argv: list[str]) -> Any:
    from fsdp_mlir import TrainingStep

    parser = argparse.ArgumentParser()
    parser.add_argument("--op", required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--sample", type=int, default=0)
    flags = parser.parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_model(Case(flags.op, flags.variant, flags.sample, ""))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    return TrainingStep(
        model=model,
        loss=lambda model, x: model(x),
        optimizer=optimizer,
        inputs={"x": torch.ones(1)},
        steps=1,
        seed=0,
    )
