"""What a step's archive says of the tensors and the optimizer of its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

import torch

from ..archive.container import FORMAT_VERSION
from ..driver.progress import archive_metadata, length_of
from ..rules.schedule import set_number
from ..rules.step_numbers import numbers_after
from .errors import E, CheckpointError
from .manifest import LOST, Run, Tensor

SCALER = LOST + "fsdp.scaler."


class Step:
    """The step that an archive (docs/archive.md) describes.

    Attributes:
        path: the archive.
        metadata: its fsdp.json.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: Mapping[str, Any] = archive_metadata(path)
        if "optimizer" not in self.metadata:
            what = "is no archive of a step" if path.exists() else "is not there"
            raise CheckpointError(
                E.ARCHIVE_DAMAGED,
                f"{path} {what}; give the STEP.pt that python -m fsdp_mlir.export wrote",
            )
        version = self.metadata.get("format_version")
        if version != FORMAT_VERSION:
            raise CheckpointError(
                E.ARCHIVE_VERSION,
                f"{path} has format version {version}, this program reads version "
                f"{FORMAT_VERSION}; export the step again",
            )

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups: `parameters` by name, and `hyperparameters`."""
        return self.metadata["optimizer"]["groups"]

    @property
    def optimizer(self) -> str:
        """The optimizer's name: of torch.optim's classes in lower case; of several, all names."""
        return "+".join(dict.fromkeys(group["optimizer"] for group in self.groups))

    @property
    def seed(self) -> int:
        return self.metadata["seed"]

    @property
    def data_inputs(self) -> dict[str, int]:
        """The columns of data that a step reads, and one rank's batch of each."""
        inputs = self.metadata["inputs"]
        return {i["name"]: i["shape"][0] for i in inputs if i["source"] == "data"}

    @property
    def scaler(self) -> Optional[dict[str, Any]]:
        """The factors of a `torch.amp.GradScaler`, or None."""
        return self.metadata["scaler"]

    def hyperparameters(self, steps: int) -> list[dict[str, Any]]:
        """Each group's hyperparameters after so many steps: those of the next one."""
        groups = [dict(group["hyperparameters"]) for group in self.groups]
        schedule = self.metadata["schedule"]
        if schedule:
            row = schedule["rows"][min(steps, len(schedule["rows"]) - 1)]
            for column, value in zip(schedule["columns"], row):
                set_number(groups[column["group"]], column["name"], value)
        return groups

    def numbers(self, rule: Mapping[str, Any], steps: int) -> dict[str, float]:
        """The states of a rule that are one number and do not count steps, after so many."""
        table = self.metadata["schedule"] or {"columns": [], "rows": []}
        places = {
            column["name"]: place
            for place, column in enumerate(table["columns"])
            if column["group"] == rule["group"]
        }
        constant = self.groups[rule["group"]]["hyperparameters"]

        def value(step: int, name: str) -> float:
            rows = table["rows"]
            return (
                rows[min(step, len(rows)) - 1][places[name]] if name in places else constant[name]
            )

        return numbers_after(rule["numbers"], steps, value)

    def trained(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each parameter that the optimizer holds and that is trainable, and the rule of it."""
        for rule in self.metadata["optimizer"]["rules"]:
            for name in rule["parameters"]:
                yield name, rule

    def missed(self) -> dict[str, str]:
        """By parameter: the buffer that counts the steps which gave it no gradient; none of those that
        each step gives one."""
        return {name: rule["missed"] for name, rule in self.trained() if rule["missed"]}

    def updated(self) -> set[str]:
        """The parameters that a step updates: those whose gradient one of its turns computes.
        PyTorch's optimizers have no state of others."""
        programs = self.metadata["programs"].values()
        results = (result for program in programs for result in program["results"])
        reached = {result["fqn"] for result in results if result["role"] == "gradient"}
        return {name for name, _ in self.trained() if name in reached}

    def tensors(self) -> list[Tensor]:
        """All that a checkpoint of the step has, without chunks. What has no element is not in
        checkpoints."""
        found = []
        shapes = {}
        for state in self.metadata["parameters"]:
            shapes[state["fqn"]] = tuple(state["shape"])
            found.append(_tensor(state, state["fqn"], "parameter"))
        for state in self.metadata["buffers"]:
            name = state["fqn"] if state["persistent"] else LOST + state["fqn"]
            found.append(_tensor(state, name, "buffer"))
        updated = self.updated()
        for name, rule in self.trained():
            for state in rule["states"] if name in updated else ():
                full = f"{name}/{state['name']}"
                shape = shapes[name] if state["shape"] is None else tuple(state["shape"])
                found.append(Tensor(full, "optimizer", state["dtype"], shape, parameter=name))
        return [tensor for tensor in found if tensor.count]

    def run_after(self, steps: int, seed: int, samples: int, ranks: int) -> Run:
        """Where a run of so many ranks is after `steps` of its steps over a data set of `samples`
        (0: it has none, or its size is not known)."""
        batches = self.data_inputs.values()
        if not batches:
            return Run(steps, seed)
        each = next(iter(batches)) * ranks * self.metadata["accumulate"]
        # One long epoch stands for the same place.
        per_epoch = length_of(self.metadata, samples or None, ranks).steps_per_epoch
        epoch, place = divmod(steps, per_epoch) if per_epoch else (0, steps)
        return Run(steps, seed, epoch, place * each, samples)


def _tensor(state: Mapping[str, Any], name: str, role: str) -> Tensor:
    return Tensor(
        name, role, state["dtype"], tuple(state["shape"]), aliases=tuple(state["aliases"])
    )


def optimizer_class(name: str) -> type[torch.optim.Optimizer]:
    """torch.optim's class of that name in an archive. Raises CheckpointError for another one."""
    for candidate in vars(torch.optim).values():
        if isinstance(candidate, type) and candidate.__name__.lower() == name:
            return candidate
    raise CheckpointError(
        E.EXPORT_FORM,
        f"the optimizer {name} is none of torch.optim's, and its state_dict() is not known here; "
        "leave it out with --no-optimizer, or use fsdp_mlir.checkpoint.load() where it is",
    )
