"""The state of a checkpoint as PyTorch's dictionaries have it, without its values."""

from __future__ import annotations

from typing import Any, Optional

import torch

from .elements import dtype_row
from .errors import E, CheckpointError
from .manifest import LOST, Tensor
from .reader import Checkpoint
from .step_archive import SCALER, Step, optimizer_class


class Skeleton:
    """State dictionaries in which a tensor of the checkpoint is one on meta, which `source`
    knows again."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self._placed: dict[str, torch.Tensor] = {}
        self._sources: dict[int, Tensor] = {}
        self._counted: dict[tuple[str, int], dict[str, float]] = {}

    def place(self, tensor: Tensor) -> torch.Tensor:
        if tensor.name not in self._placed:
            kind = dtype_row(tensor.dtype).dtype
            placed = torch.empty(tensor.shape, dtype=kind, device="meta")
            self._placed[tensor.name] = placed
            self._sources[id(placed)] = tensor
        return self._placed[tensor.name]

    def source(self, value: Any) -> Optional[Tensor]:
        """The tensor that `value` stands for; None: `value` is what it is."""
        return self._sources.get(id(value))

    def model(self) -> dict[str, torch.Tensor]:
        """The model's `state_dict()`. Of a tensor that each rank has of its own, rank 0's."""
        state = {}
        for tensor in self.checkpoint.manifest.tensors:
            if tensor.is_persistent:
                for name in (tensor.name, *tensor.aliases):
                    state[name] = self.place(tensor)
        return state

    def optimizer(self, step: Step, complete: bool) -> dict[str, Any]:
        """The optimizer's `state_dict()` with the names of parameters in place of their numbers, as
        torch.distributed.checkpoint.state_dict.get_optimizer_state_dict() gives it.

        Args:
            complete: with the first state of parameters that no step updates, which that function
                makes, and the optimizer itself does not.
        """
        manifest = self.checkpoint.manifest
        kept = {tensor.name for tensor in step.tensors()}
        for tensor in manifest.of_role("optimizer"):
            if tensor.name not in kept:
                raise CheckpointError(
                    E.CHECKPOINT_MISMATCH,
                    f"the checkpoint has {tensor.name}, which the step of {step.path} does not keep; "
                    "give the archive of the run that wrote it",
                )
        stored: dict[str, dict[str, Tensor]] = {}
        for tensor in manifest.of_role("optimizer"):
            stored.setdefault(tensor.parameter, {})[tensor.key] = tensor
        rules = dict(step.trained())
        taken = {name: self._updates(step, name) for name in rules}
        # PyTorch's optimizers have no state of what never had a gradient.
        never = {name for name in step.missed() if not taken[name]}
        updated = step.updated() - never
        numbers = {name: self._numbers(step, rule, taken[name]) for name, rule in rules.items()}
        dimensions = {state["fqn"]: len(state["shape"]) for state in step.metadata["parameters"]}
        groups, state = [], {}
        for group, values in zip(step.groups, step.hyperparameters(manifest.run.step)):
            kind = optimizer_class(group["optimizer"])
            # What an optimizer keeps may depend on the dimensions, as Adafactor's variances do.
            tried = {
                count: _try(kind, values, count)
                for count in {dimensions[name] for name in group["parameters"]} or {1}
            }
            options = next(options for options, _ in tried.values())
            options |= {"lr": values["lr"], **_implementation(options, group)}
            groups.append({"params": list(group["parameters"]), **options})
            for name in group["parameters"]:
                _, example = tried[dimensions[name]]
                if name in rules and name not in updated and complete:
                    state[name] = self._first(name, step, rules[name], example)
                elif name in updated and example:
                    own = stored.get(name, {})
                    state[name] = {
                        key: (
                            torch.full_like(value, numbers[name][key])
                            if key in numbers[name]
                            else self._value(f"{name}/{key}", value, own.get(key), taken[name])
                        )
                        for key, value in example.items()
                    }
        return {"state": state, "param_groups": groups}

    def _updates(self, step: Step, parameter: str) -> int:
        """How often a parameter was updated."""
        done = self.checkpoint.manifest.run.step - int(self._scalar(SCALER + "skipped_steps"))
        missed = step.missed().get(parameter)
        return done - int(self._scalar(LOST + missed)) if missed else done

    def _numbers(self, step: Step, rule: dict[str, Any], steps: int) -> dict[str, float]:
        key = (rule["name"], steps)
        if key not in self._counted:
            self._counted[key] = step.numbers(rule, steps)
        return self._counted[key]

    def _first(
        self, name: str, step: Step, rule: dict[str, Any], example: dict[str, Any]
    ) -> dict[str, Any]:
        """The state of a parameter before the optimizer's first step."""
        tensor = self.checkpoint.manifest.find(name)
        shape = tensor.shape if tensor else (0,)
        first = {
            state["name"]: torch.full(
                shape if state["shape"] is None else state["shape"],
                state["initial"],
                dtype=dtype_row(state["dtype"]).dtype,
            )
            for state in rule["states"]
        }
        for key, value in self._numbers(step, rule, 0).items():
            first[key] = torch.full_like(example[key], value)
        return {key: first[key] if key in first else _counted(v, 0) for key, v in example.items()}

    def _value(self, name: str, example: Any, tensor: Optional[Tensor], taken: int) -> Any:
        """A state's value; `example` is that of the same state after the first step of an example."""
        if tensor is not None:
            return self.place(tensor)
        if example is None or _is_count(example):
            return _counted(example, taken)
        raise CheckpointError(
            E.CHECKPOINT_MISMATCH,
            f"the checkpoint has no {name}; give the archive of the run that wrote it",
        )

    def scaler(self, step: Step) -> Optional[dict[str, Any]]:
        """The `state_dict()` of a `torch.amp.GradScaler`; None: the step has none."""
        if not step.scaler:
            return None
        return {
            "scale": self._scalar(SCALER + "scale"),
            "growth_factor": step.scaler["growth_factor"],
            "backoff_factor": step.scaler["backoff_factor"],
            "growth_interval": step.scaler["growth_interval"],
            "_growth_tracker": int(self._scalar(SCALER + "growth_tracker")),
        }

    def _scalar(self, name: str) -> float:
        """A buffer of one number; 0 where it is not there."""
        tensor = self.checkpoint.manifest.find(name)
        return self.checkpoint.tensor(tensor).item() if tensor else 0.0


def _is_count(example: Any) -> bool:
    """Whether a state that is `example` after the first step counts steps."""
    if isinstance(example, torch.Tensor):
        return example.numel() == 1 and example.item() == 1
    return isinstance(example, int) and example == 1


def _counted(example: Any, taken: int) -> Any:
    if isinstance(example, torch.Tensor):
        return torch.full_like(example, taken)
    return None if example is None else taken


def _try(
    kind: type[torch.optim.Optimizer], given: dict[str, Any], dimensions: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All options of a group of this kind with the options `given`, and the state of a parameter
    of so many dimensions, each of size two, after its first step."""
    parameter = torch.nn.Parameter(torch.zeros((2,) * dimensions))
    optimizer = kind([{"params": [parameter], **given}])
    [group] = optimizer.param_groups
    for key, value in group.items():
        if isinstance(optimizer.defaults.get(key), tuple):
            group[key] = tuple(value)
    parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    options = {key: value for key, value in group.items() if key != "params"}
    return options, dict(optimizer.state[parameter])


def _implementation(options: dict[str, Any], group: dict[str, Any]) -> dict[str, bool]:
    chosen = group["implementation"]
    return {chosen: True} if chosen in options else {}


def numbered(state: dict[str, Any]) -> dict[str, Any]:
    """An optimizer's `state_dict()` as torch.optim itself has it: parameters by number, in the
    order of the groups."""
    numbers: dict[str, int] = {}
    groups = []
    for group in state["param_groups"]:
        members = [numbers.setdefault(name, len(numbers)) for name in group["params"]]
        # As torch.optim writes them: `params` is the last one.
        options = {key: value for key, value in group.items() if key != "params"}
        groups.append({**options, "params": members})
    return {
        "state": {numbers[name]: value for name, value in state["state"].items()},
        "param_groups": groups,
    }
