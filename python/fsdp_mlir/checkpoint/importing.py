"""Makes a checkpoint of what others wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch

from ..data.tensor_file import as_bytes, form_of
from ..dtypes import DTYPES, short_name
from ..step.pairs import as_pairs_of
from .elements import dtype_row
from .errors import E, CheckpointError
from .find_state import find_model, find_optimizer, some
from .folder import MOST_STEPS
from .manifest import LOST, Tensor
from .sources import Source
from .step_archive import SCALER, Step
from .writer import write_checkpoint


@dataclass
class Choices:
    """What a user says of an import.

    Attributes:
        steps: that are done; None: as the source says.
        ranks: of the run that goes on, and files.
        seed: of the data's order; None: the step's.
        samples: of the data set; 0: it has none.
        model_key, optimizer_key: what stands before the names in the source; None: it is found.
        weights: tensors by their names in checkpoints, for what no state_dict() has.
    """

    steps: Optional[int] = None
    ranks: int = 1
    seed: Optional[int] = None
    samples: int = 0
    model_key: Optional[str] = None
    optimizer_key: Optional[str] = None
    weights: Optional[Source] = None


class Import:
    """The state of `step` in `source`.

    Attributes:
        notes: what a user should know.
    """

    def __init__(self, source: Source, step: Step, choices: Choices) -> None:
        self._source, self._step, self._choices = source, step, choices
        self.notes: list[str] = []
        self._tensors = step.tensors()
        self._places, prefix = find_model(source, self._tensors, choices.model_key)
        self._note_unknown(prefix)
        places, counts = find_optimizer(source, step, self._tensors, choices.optimizer_key)
        self._places |= places
        self._steps, self._skipped = self._count(counts)
        self._values = self._lost() | self._missed(counts) | self._unmade()
        self._cast: list[str] = []

    def write(self, root: Path) -> Path:
        """Writes the checkpoint into the folder `root`, and returns its own."""
        choices = self._choices
        seed = self._step.seed if choices.seed is None else choices.seed
        run = self._step.run_after(self._steps, seed, choices.samples, choices.ranks)
        mesh = (("shard", choices.ranks),)
        path = write_checkpoint(root, run, self._tensors, self._read, choices.ranks, mesh)
        if self._cast:
            self.notes.append(f"{some(self._cast)} are cast to the step's dtype")
        return path

    def _note_unknown(self, prefix: str) -> None:
        if not prefix:
            return
        known = {prefix + name for t in self._tensors for name in (t.name, *t.aliases)}
        unknown = [key for key in self._source if key.startswith(prefix) and key not in known]
        if unknown:
            self.notes.append(f"the source has {some(unknown)}, which the model has not")

    def _count(self, counts: dict[str, str]) -> tuple[int, int]:
        """Steps that the run did, and how many of them the scaler skipped."""
        always = counts.keys() - self._step.missed().keys() or counts.keys()
        taken = {_steps_of(self._source[counts[name]](), counts[name]) for name in always}
        if len(taken) > 1:
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"the source's optimizer has updated some parameters {min(taken)} times and others "
                f"{max(taken)} times, and the step here updates all of them in every step",
            )
        steps = self._choices.steps
        if steps is None and taken and not self._step.scaler:
            [steps] = taken
        if steps is None and "step" in self._source:
            steps = _steps_of(self._source["step"](), "step")
        if steps is None and taken:
            [steps] = taken
        if steps is None:
            raise CheckpointError(
                E.IMPORT_SOURCE, "the source does not say how many steps are done; give --step N"
            )
        skipped = steps - taken.pop() if taken else 0
        if skipped < 0 or (skipped and not self._step.scaler):
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"the source's optimizer has done {steps - skipped} steps, and --step says {steps}",
            )
        return steps, skipped

    def _missed(self, counts: dict[str, str]) -> dict[str, torch.Tensor]:
        """What counts the steps that gave some parameters no gradient."""
        done = self._steps - self._skipped
        updates: dict[str, int] = {}
        for name, buffer in self._step.missed().items():
            if name in counts:
                own = _steps_of(self._source[counts[name]](), counts[name])
            else:  # an optimizer that does not count has a state, or none
                own = done if any(t.parameter == name for t in self._found()) else 0
            updates[buffer] = max(own, updates.get(buffer, 0))
        return {
            LOST + buffer: torch.tensor(float(done - own), dtype=torch.float64)
            for buffer, own in updates.items()
        }

    def _unmade(self) -> dict[str, torch.Tensor]:
        """The first states of parameters that no step had to update."""
        rules = dict(self._step.trained())
        found = {tensor.name for tensor in self._found()}
        values = {}
        for tensor in self._tensors:
            if tensor.role == "optimizer" and tensor.name not in found:
                states = rules[tensor.parameter]["states"]
                (first,) = (s["initial"] for s in states if s["name"] == tensor.key)
                dtype = dtype_row(tensor.dtype).dtype
                values[tensor.name] = torch.full(tensor.shape, first, dtype=dtype)
        return values

    def _found(self) -> list[Tensor]:
        """The tensors that the source has."""
        return [tensor for tensor in self._tensors if tensor.name in self._places]

    def _lost(self) -> dict[str, torch.Tensor]:
        """What no state_dict() of the model has: buffers that are not persistent, the scaler's."""
        weights, values, missing = self._choices.weights or {}, {}, []
        counted = {LOST + buffer for buffer in self._step.missed().values()}
        for tensor in self._tensors:
            if not tensor.name.startswith(LOST) or tensor.name in counted:
                continue
            key = tensor.name.removeprefix(SCALER)
            own = {"scale": "scaler.scale", "growth_tracker": "scaler._growth_tracker"}.get(key)
            if tensor.name.startswith(SCALER) and key == "skipped_steps":
                values[tensor.name] = torch.tensor(float(self._skipped))
            elif tensor.name.startswith(SCALER) and own in self._source:
                values[tensor.name] = torch.as_tensor(self._source[own]())
            elif tensor.name in weights:
                values[tensor.name] = weights[tensor.name]()
            else:
                missing.append(tensor.name)
        if missing:
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"the source has no {some(missing)}, which no state_dict() has; take it from the "
                "weights file of the export with --weights STEP.safetensors, or from a checkpoint "
                "that a run here wrote with --weights CHECKPOINT",
            )
        return values

    def _read(self, tensor: Tensor, rank: int) -> np.ndarray:
        place = self._places.get(tensor.name)
        value: Any = self._values[tensor.name] if place is None else self._source[place]()
        if not isinstance(value, torch.Tensor) or hasattr(value, "full_tensor"):
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"{place} is a {type(value).__name__} in the source; save whole tensors, as "
                "StateDictOptions(full_state_dict=True) gives them, or with dcp.save",
            )
        if form := form_of(value):
            raise CheckpointError(
                E.IMPORT_SOURCE, f"{place} is {form} in the source; save dense tensors"
            )
        value = as_pairs_of(value, tensor.shape)
        if tuple(value.shape) != tensor.shape:
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"{tensor.name} has shape {list(value.shape)} in the source and "
                f"{list(tensor.shape)} in the step; import the state of a model of the same sizes",
            )
        kind = dtype_row(tensor.dtype).dtype
        if value.dtype not in DTYPES or value.is_complex() and not kind.is_complex:
            raise CheckpointError(
                E.IMPORT_SOURCE,
                f"{tensor.name} is {short_name(value.dtype)} in the source and {tensor.dtype} in "
                "the step; save the state of a model of the same types",
            )
        if place is not None and value.dtype != kind:
            self._cast.append(tensor.name)
        return as_bytes(value.to(kind))


def _steps_of(value: Any, place: str) -> int:
    """The count of steps that the source has at `place`: a number, or a tensor of one."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MOST_STEPS or value != int(value):
        said = f"a {type(value).__name__}" if not is_number else str(value)
        raise CheckpointError(
            E.IMPORT_SOURCE,
            f"{place} is {said} in the source, and no count of steps from 0 to {MOST_STEPS}; save "
            "the state that the optimizer's state_dict() gives",
        )
    return int(value)
