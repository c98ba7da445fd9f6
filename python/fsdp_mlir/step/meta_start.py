"""A model on `meta`: its tensors' first values, and what stands in for them while it is captured."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional

import torch

from . import recipes
from ..errors import E, ExportError
from .init_recorder import InitRecorder
from .recipes import Recipe


class FirstValues:
    """How each tensor of a step gets its first value: by a recipe, or from the weights file."""

    def __init__(self, recorder: Optional[InitRecorder], seed: int) -> None:
        self._recorder = recorder
        self._seed = seed
        self._draws: dict[int, int] = {}

    def check(self, tensors: dict[str, torch.Tensor]) -> None:
        """Raises ExportError where a tensor on meta gets its value by nothing."""
        meta = {name: tensor for name, tensor in tensors.items() if is_meta(tensor)}
        if meta and self._recorder is None:
            raise ExportError(
                E.FIRST_VALUES,
                f"{next(iter(meta))} is on the meta device, and nobody recorded how it is "
                "initialised; build the model and the TrainingStep in a step file, or in "
                "`with fsdp_mlir.record_init():`",
            )
        missing = [name for name, t in meta.items() if not self._recorder.is_defined(t)]
        if missing:
            shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
            raise ExportError(
                E.FIRST_VALUES,
                f"nothing initialises {shown}; behind to_empty(), call the model's init_weights() "
                "or apply(fn), or reset_parameters() of each module that has parameters",
            )

    def recipe(self, tensor: torch.Tensor) -> Optional[Recipe]:
        """The recipe of a tensor on meta; None: it has, or gets at export, values."""
        if not is_meta(tensor) or not tensor.is_contiguous():
            return None
        recipe = self._recorder.recipe(tensor)
        if not recipe or tensor.is_complex():
            return None
        exact = tensor.is_floating_point() or all(step.op == "fill" for step in recipe)
        return recipe if exact else None

    def describe(self, tensor: torch.Tensor) -> Optional[list[dict[str, Any]]]:
        """The field `init` of the tensor in fsdp.json."""
        recipe = self.recipe(tensor)
        return recipe and recipes.describe(recipe, self._draws)

    def value(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """The value of a tensor without a recipe."""
        if not is_meta(tensor):
            return tensor
        try:
            return self._recorder.compute(tensor, self._seed)
        except Exception as error:
            raise ExportError(
                E.FIRST_VALUES, f"the first value of {name} cannot be computed: {error}"
            ) from error


def is_meta(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "meta"


@contextlib.contextmanager
def stand_ins(
    model: torch.nn.Module, fake_mode: Any
) -> Iterator[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Puts fake tensors on the cpu in the place of the model's parameters and buffers.

    Capture differentiates those, where on meta it would find no gradients. Yields them, each with
    what it stands for; the model is as before when the block ends.
    """
    made: dict[int, torch.Tensor] = {}
    places: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    for module in model.modules():
        for table in (module._parameters, module._buffers, vars(module)):
            for name, tensor in table.items():
                if not isinstance(tensor, torch.Tensor):
                    continue
                if id(tensor) not in made:
                    made[id(tensor)] = _fake(tensor, fake_mode)
                places.append((table, name, tensor))
    try:
        for table, name, tensor in places:
            table[name] = made[id(tensor)]
        yield [(made[id(tensor)], tensor) for _, _, tensor in places]
    finally:
        for table, name, tensor in places:
            table[name] = tensor


def _fake(tensor: torch.Tensor, fake_mode: Any) -> torch.Tensor:
    with fake_mode:
        fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
    return fake
