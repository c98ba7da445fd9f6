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
EXPERTS = "test/gpu/models/experts.py"
ZOO = "test/numerics/zoo/zoo_step.py"


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
    the largest, each saved tensor by at most ten times that of its norm; but for bf16 and fp16, whose
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

# Models of the zoo that draw no random numbers: what operators of a kind they bring to a GPU.
MODELS = (
    # Recurrence, and losses with lengths.
    *("nn/lstm", "nn/lstm-packed-ragged", "nn/gru-packed", "nn/lstm-projected", "nn/ctc"),
    # Convolutions, pools and what else moves over pictures.
    *("nn/conv-transpose2d", "nn/conv3d", "nn/group-norm", "nn/adaptive-max-pool", "nn/fold"),
    *("nn/upsample-bicubic", "nn/replication-pad", "timm/test_byobnet", "strange/unet"),
    *("scripts/roi-align", "scripts/deformable-convolution", "scripts/super-resolution"),
    # Indices, sorts, sizes that depend on values, and places that are read from tensors.
    *("nn/embedding-bag", "scripts/boolean-index", "scripts/sort"),
    *("scripts/cumulative-sum", "scripts/experts-by-nonzero"),
    *("selections/graph", "selections/hard-negatives", "selections/two-experts"),
    *("states/count-as-number", "states/sparse-embedding", "strange/moco"),
    # Linear algebra, transforms, derivatives of derivatives.
    *("scripts/linear-algebra", "scripts/fourier-operator", "scripts/vmap", "scripts/forces"),
    *("scripts/gradient-penalty", "strange/neural-ode", "strange/vq-vae-averages"),
    # Language models: mixtures of experts, state spaces, attention of several kinds.
    *("scripts/experts", "transformers/causal/mixtral", "transformers/causal/qwen3_moe"),
    *("transformers/causal/deepseek_v3", "transformers/causal/gpt_oss", "strange/rwkv"),
    *("transformers/causal/mamba2", "transformers/causal/falcon_h1", "transformers/causal/bloom"),
    *("transformers/causal/gemma3_text", "transformers/causal/llama", "strange/fourier-mixing"),
    *(
        "transformers/speech/whisper",
        "transformers/images/dinov2",
        "transformers/contrastive/clip",
    ),
)


def of_zoo(model: str) -> str:
    """The name of a model's step and case: "nn-lstm" of "nn/lstm"."""
    return model.replace("/", "-")


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
    "experts": Step(EXPERTS),
    "experts-bf16": Step(EXPERTS, ("--bf16",)),
    **{of_zoo(model): Step(ZOO, (f"--model={model}",)) for model in MODELS},
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
    *(Case(of_zoo(model), "models", of_zoo(model), steps=3) for model in MODELS),
    Case("experts", "models", "experts"),
    Case("experts.flat", "models", "experts", "mesh=2 shard-layout=flat", 2),
    # Whose router chooses another expert where two are as likely in 16 bits.
    Case("experts-bf16", "graph", "experts-bf16", host=False),
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
