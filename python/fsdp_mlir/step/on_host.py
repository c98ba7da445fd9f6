"""A step whose model or batches are on a GPU: it is captured from copies on the CPU, and a plan names
the device that it runs on."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Mapping

import torch

from ..errors import note
from .training_step import TrainingStep

_TENSORS = ("batches", "inputs", "data", "eval_data")


@contextlib.contextmanager
def on_host(step: TrainingStep) -> Iterator[None]:
    """Within it, the tensors of a step that are on a GPU are on the CPU. Those that share memory
    share it there too."""
    model = [*step.model.parameters(), *step.model.buffers()]
    moved = {id(tensor): tensor for tensor in model if _is_on_gpu(tensor)}.values()
    before = [(tensor, tensor.data, tensor.grad if tensor.is_leaf else None) for tensor in moved]
    given = {name: getattr(step, name) for name in _TENSORS}
    if before:
        device = before[0][1].device
        note(
            f"the model is on {device}, and is exported from a copy on the CPU; compile the step "
            "with device=cuda to train it there"
        )
    copies = _Copies()
    try:
        for tensor, data, _ in before:
            if tensor.is_leaf:
                tensor.grad = None  # which has to be where its tensor is
            tensor.data = copies.of(data)
        for name, value in given.items():
            setattr(step, name, copies.within(value))
        step.inputs = step.batches[0]
        yield
    finally:
        for tensor, data, gradient in before:
            tensor.data = data
            if tensor.is_leaf:
                tensor.grad = gradient
        for name, value in given.items():
            setattr(step, name, value)


class _Copies:
    """Copies of tensors on the CPU, with one storage for each that they have on the GPU."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.cpu()
        copy = torch.empty(0, dtype=tensor.dtype)
        place = tensor.storage_offset(), tensor.shape, tensor.stride()
        return copy.set_(self._storages[storage._cdata], *place)

    def within(self, value: Any) -> Any:
        """A tensor, or a list or dict of them, with copies for those that are on a GPU."""
        if isinstance(value, torch.Tensor):
            return self.of(value) if _is_on_gpu(value) else value
        if type(value) is list:
            return [self.within(member) for member in value]
        if isinstance(value, Mapping):
            return {name: self.within(member) for name, member in value.items()}
        return value


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda" and type(tensor) in (torch.Tensor, torch.nn.Parameter)
