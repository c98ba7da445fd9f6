"""The exported step of a model, and its plans."""

from __future__ import annotations

import pathlib
import sys

from bench.models import Model
from bench.turn import Failed, environment
from support import chain


class Files:
    """Exports `model` into `folder`; plans are made on demand, by the pipeline's options."""

    def __init__(self, model: Model, folder: pathlib.Path, fused: bool):
        self.model = model
        self.folder = folder
        self.archive = folder / "step.pt"
        self.plans: dict[str, chain.Compiled] = {}
        self.tuned = False
        folder.mkdir(parents=True, exist_ok=True)
        flags = [*model.flags, *(["--fused"] if fused else [])]
        if model.precision:
            flags += ["--precision", model.precision]
        exporter = [sys.executable, "-m", "fsdp_mlir.export", "-o", self.archive]
        chain.command([*exporter, model.step_file, *flags], env=environment())

    def plan(self, name: str, pipeline: str) -> chain.Compiled:
        """Raises Failed where the compiler refuses."""
        if name not in self.plans:
            folder = self.folder / name
            try:
                self.plans[name] = chain.lower(
                    self.model.step_file, self.archive, folder, pipeline=pipeline
                )
            except chain.ChainError as error:
                lines = [line for line in error.output.splitlines() if "error:" in line]
                raise Failed((lines or [f"exit {error.code}"])[0].strip()) from error
        return self.plans[name]

    def kernel_table(self) -> pathlib.Path:
        """What each kernel takes for the model's products, measured when first asked for."""
        table = self.folder / "kernels.toml"
        if not self.tuned:
            table.unlink(missing_ok=True)
            plan = self.plan("tuned", "mesh=1").plan
            chain.command([chain.binary("fsdp-run"), plan, "--tune", table])
            self.tuned = True
        return table.resolve()
