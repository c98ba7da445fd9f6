"""What is compiled where there is a compiler, and run where there is a GPU: two tables.

Only the standard library is imported here: both sides read the tables.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPT2 = "test/gpu/models/gpt2.py"
SMALL = "test/compiler/options/step.py"
TRANSFORMER = "python/examples/fsdp2_transformer.py"


@dataclasses.dataclass(frozen=True)
class Step:
    """A step file, from the root, with its flags. Parameters of one that starts on meta are drawn
    by the ranks, so that no file holds them."""

    file: str
    flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Case:
    """A plan and the run it is for: on the CPU, and on a GPU.

    `row` of the script runs it. Each of `steps` losses differs from the CPU's by at most `loss` of
    it, each saved tensor by at most ten times that of its norm; but for bf16 and fp16, whose
    weights differ by their own rounding. `host` is False where the CPU's run says nothing.
    """

    name: str
    row: str
    step: str
    pipeline: str = "mesh=1"
    ranks: int = 1
    steps: int = 20
    loss: float = 1e-5
    weights: bool = True
    host: bool = True


def _gpt2(*flags: str, size: str = "tiny") -> Step:
    return Step(GPT2, ("--size", size, *flags))


def _timed(size: str, batch: int) -> Step:
    return _gpt2(
        *("--lr", "1e-4", "--start", "meta", "--precision", "bf16", "--fused"),
        *("--batch", str(batch)),
        size=size,
    )


# As PyTorch chooses on Hopper.
CUDNN = "mesh=1 attention=cudnn,flash,efficient"
# The batches that leave room for FSDP2 on 80 GB.
TIMED = {"124m": 8, "350m": 8, "774m": 4, "1.5b": 4, "3b": 2}

STEPS = {
    "mlp": Step(SMALL, ("--model", "mlp")),
    "mlp-scaler": Step(SMALL, ("--model", "mlp", "--scaler")),
    "conv": Step(SMALL, ("--model", "resnet")),
    "dropout": Step(SMALL, ("--model", "gpt")),
    "transformer": Step(TRANSFORMER, ("--plain",)),
    "gpt": _gpt2("--samples", "61"),
    "gpt-sgd": _gpt2("--samples", "61", "--sgd"),
    "gpt-accumulate": _gpt2("--samples", "61", "--accumulate", "3"),
    # Not AdamW, for which the size of gradients says nothing.
    "gpt-clip": _gpt2("--samples", "61", "--sgd", "--max-norm", "0.5"),
    "gpt-bf16": _gpt2("--samples", "61", "--precision", "bf16"),
    "gpt-fp16": _gpt2("--samples", "61", "--precision", "fp16"),
    "too-large": _gpt2("--start", "meta", "--batch", "128", size="3b"),
    "timed-tiny": _timed("tiny", 4),
    **{f"timed-{size}": _timed(size, batch) for size, batch in TIMED.items()},
}


def _reduced(name: str, pipeline: str, ranks: int) -> Case:
    """In bf16 or fp16, over a hundred steps."""
    return Case(name, "precision", name.split(".")[0], pipeline, ranks, 100, 2e-3, weights=False)


_CASES = (
    Case("mlp", "kernels", "mlp"),
    Case("conv", "kernels", "conv", steps=10),
    Case("transformer", "kernels", "transformer"),
    Case("gpt", "kernels", "gpt"),
    Case("gpt-sgd", "kernels", "gpt-sgd"),
    Case("gpt.dim0", "ranks", "gpt", "mesh=2", 2),
    Case("gpt.flat", "ranks", "gpt", "mesh=2 shard-layout=flat", 2),
    Case("gpt.naive", "ranks", "gpt", "mesh=2 schedule=naive streams=1", 2),
    Case("gpt.hsdp", "ranks", "gpt", "mesh=2x2 mesh-dims=replicate,shard", 4),
    Case("gpt.ddp", "ranks", "gpt-sgd", "mesh=2x1 mesh-dims=replicate,shard", 2),
    Case("conv.flat", "ranks", "conv", "mesh=2 shard-layout=flat", 2, steps=10),
    Case("gpt.accumulate", "policies", "gpt-accumulate", "mesh=2", 2),
    Case("gpt.accumulate-alone", "policies", "gpt-accumulate"),
    Case("gpt.clip", "policies", "gpt-clip", "mesh=2", 2),
    Case("gpt.remat-full", "policies", "gpt", "mesh=2 remat=full", 2),
    Case("gpt.remat-selective", "policies", "gpt", "mesh=2 remat=selective", 2),
    Case("gpt.offload-params", "offload", "gpt", "mesh=2 offload=params", 2),
    Case("gpt.offload-optimizer", "offload", "gpt", "mesh=2 offload=optimizer", 2),
    Case("gpt.offload-all", "offload", "gpt", "mesh=2 offload=all", 2),
    Case("gpt.offload-alone", "offload", "gpt", "mesh=1 offload=params"),
    Case("gpt.offload-pageable", "offload", "gpt", "mesh=1 offload=all pin-memory=false"),
    Case("mlp-scaler", "precision", "mlp-scaler"),
    _reduced("gpt-bf16", "mesh=1", 1),
    _reduced("gpt-bf16.cudnn", CUDNN, 1),
    _reduced("gpt-bf16.flat", "mesh=2 shard-layout=flat", 2),
    _reduced("gpt-fp16", "mesh=1", 1),
    # A GPU draws other numbers than a CPU.
    Case("dropout", "graph", "dropout", host=False),
    Case("too-large", "errors", "too-large", host=False),
    Case("timed-tiny", "bench", "timed-tiny", steps=4, loss=2e-3, weights=False),
    Case("timed-tiny.2", "bench", "timed-tiny", "mesh=2 shard-layout=flat", 2, host=False),
    *(Case(f"timed-{size}", "bench", f"timed-{size}", host=False) for size in TIMED),
    *(
        Case(f"timed-{size}.cudnn", "bench", f"timed-{size}", CUDNN, host=False)
        for size in ("tiny", *TIMED)
    ),
    Case("timed-124m.2", "bench", "timed-124m", "mesh=2 shard-layout=flat", 2, host=False),
)
CASES = {case.name: case for case in _CASES}


def of_row(row: str) -> list[Case]:
    return [case for case in CASES.values() if case.row == row]


@dataclasses.dataclass(frozen=True)
class Files:
    """Where prepare.py leaves what belongs to a case, below its folder."""

    folder: pathlib.Path

    def plan(self, case: Case, device: str) -> pathlib.Path:
        return self.folder / f"{case.name}.{device}.plan"

    def weights(self, case: Case) -> pathlib.Path:
        return self.folder / f"{case.step}.safetensors"

    def data(self, case: Case) -> Optional[pathlib.Path]:
        path = self.folder / f"{case.step}.data.safetensors"
        return path if path.exists() else None

    @property
    def refusals(self) -> pathlib.Path:
        """A JSON object: what the compiler said of the plans that it did not make, by file name."""
        return self.folder / "refused.json"


# What prepare.py wrote here, or elsewhere before `tools/dev pack-runtime` took it along.
PREPARED, GIVEN = ROOT / "out" / "gpu" / "plans", ROOT / "given" / "plans"
FILES = Files(GIVEN if GIVEN.exists() else PREPARED)
