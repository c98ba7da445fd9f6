"""A training as data. FSDP2 (support/fsdp2.py) and this project, here, carry out the same one."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any, Callable, Iterable

from support import chain, reference
from support.policies import Call, apply_calls


@dataclasses.dataclass(frozen=True)
class Training:
    """A step file with its flags, the calls of fully_shard on its model,
    innermost first, and the mesh of ranks."""

    file: pathlib.Path
    argv: tuple[str, ...] = ()
    calls: tuple[Call, ...] = (Call(("",)),)
    mesh: tuple[int, ...] = (2,)
    steps: int = 6
    accumulate: int | None = None  # micro-batches per step; None: as the step file says
    # Each of these sums over shards, and the last over replicas; else the last alone.
    reduces_each: bool = False

    @property
    def world(self) -> int:
        return math.prod(self.mesh)

    @property
    def mesh_dims(self) -> tuple[str, ...]:
        replicas = len(self.mesh) - 1
        names = ("replicate",) if replicas == 1 else (f"replicate{i}" for i in range(replicas))
        return (*names, "shard")


def load(training: Training) -> Any:
    """Its step, without the calls of fully_shard."""
    step = reference.load_step(training.file, training.argv)
    step.accumulate = training.accumulate or step.accumulate
    return step


def units(paths: Iterable[str]) -> tuple[Call, ...]:
    """A unit for each module, and the root's with the rest."""
    return (*(Call((path,)) for path in paths), Call(("",)))


def annotated(training: Training) -> Callable[[list[str]], Any]:
    """The step file's training_step, whose model says the policy and the mesh:
    the pipeline needs no options."""

    def training_step(flags: list[str]) -> Any:
        import fsdp_mlir

        step = load(training)
        dims = training.mesh_dims
        mesh = fsdp_mlir.init_device_mesh("cpu", training.mesh, mesh_dim_names=dims)
        apply_calls(fsdp_mlir, step.model, training.calls, mesh)
        return step

    # How many steps are run is no part of a step.
    training_step.described = repr(dataclasses.replace(training, steps=0))
    return training_step


def run(
    training: Training, folder: pathlib.Path, pipeline: str = "", **options: Any
) -> chain.Result:
    """Exports, compiles and runs it; `options` are run_plan's."""
    compiled = chain.compile_step(annotated(training), folder, training.argv, pipeline)
    return chain.run_plan(compiled, training.world, steps=training.steps, **options)
