"""The models that are timed: sizes of one GPT, and what the goals ask of each."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Mapping, Optional

from support import step_files

HERE = pathlib.Path(__file__).resolve().parent
GPT = step_files.PARITY / "gpt.py"


@dataclasses.dataclass(frozen=True)
class Model:
    """A step file with its flags. `steps` are timed in each of `rounds` turns, after `warmup`
    untimed ones.

    The goals are ratios of step times: "fsdp2" is FSDP2 eager by ours (at least), "graph" ours by
    the graph's operators alone and "eager" ours by unsharded eager PyTorch (both at most);
    "overlap" is a step by its compute where communication takes as long (at most). "fsdp2-fast" and
    "eager-fast" are of plans with `kernels=fast`.

    PyTorch trains it on `device`, with `torch_flags` beside the others, and its units in
    `precision` where that is not fp32. `without` names contestants that cannot train it.
    """

    name: str
    step_file: pathlib.Path
    flags: tuple[str, ...]
    steps: int
    warmup: int
    rounds: int
    goals: Mapping[str, float] = dataclasses.field(default_factory=dict)
    device: str = "cpu"
    torch_flags: tuple[str, ...] = ("--fused",)
    precision: Optional[str] = None
    without: tuple[str, ...] = ()


def _gpt(layers: int, width: int, heads: int, vocabulary: int, length: int) -> tuple[str, ...]:
    sizes = dict(layers=layers, width=width, heads=heads, vocab=vocabulary, length=length)
    return tuple(word for name, value in sizes.items() for word in (f"--{name}", str(value)))


SIZES = {
    "tiny": _gpt(8, 64, 4, 1000, 32),
    "small": _gpt(4, 256, 4, 5000, 128),
    "mid": _gpt(8, 512, 8, 8000, 128),
}


GOALS = ("fsdp2", "graph", "eager", "overlap", "fsdp2-fast", "eager-fast")


def _fp32(size: str, steps: int, warmup: int, rounds: int, *goals: float) -> Model:
    """`goals` are those of GOALS, in that order."""
    ratios = dict(zip(GOALS, goals, strict=True))
    return Model(size, GPT, SIZES[size], steps, warmup, rounds, goals=ratios)


def _bf16(size: str, steps: int, warmup: int, rounds: int, fsdp2: float) -> Model:
    """Gathered and computed in bfloat16, reduced in fp32. Only what shards its units has such a
    policy."""
    return Model(
        f"{size}-bf16",
        GPT,
        SIZES[size],
        steps,
        warmup,
        rounds,
        goals={"fsdp2-fast": fsdp2},
        precision="bf16",
        without=("ddp", "eager", "graph"),
    )


# Batches are 4 sequences on each rank.
MODELS = {
    model.name: model
    for model in (
        _fp32("tiny", 40, 5, 5, 7.5, 1.15, 0.75, 1.1, 8.5, 0.65),
        _fp32("small", 10, 2, 4, 1.57, 1.08, 0.98, 1.15, 1.85, 0.75),
        _fp32("mid", 3, 1, 3, 1.42, 1.06, 1.02, 1.1, 1.7, 0.8),
        # The matrices of the blocks under Muon; the graph has an AdamW of its own.
        Model(
            "small-muon",
            GPT,
            (*SIZES["small"], "--optimizer", "muon"),
            5,
            1,
            4,
            goals={"fsdp2": 0.91, "eager": 1.0},
            without=("graph",),
        ),
        # All parameters under Adafactor, which PyTorch's FSDP2 cannot run on parts.
        Model(
            "small-adafactor",
            GPT,
            (*SIZES["small"], "--optimizer", "adafactor"),
            5,
            1,
            4,
            goals={"fsdp2": 0.91, "eager": 1.0},
            without=("graph",),
        ),
        _bf16("tiny", 40, 5, 5, fsdp2=7.0),
        _bf16("small", 10, 2, 4, fsdp2=2.3),
        _bf16("mid", 3, 1, 3, fsdp2=2.2),
    )
}
# Those of docs/performance.md.
DEFAULT = ("tiny", "small", "mid")

# Trains two numbers: what a process of each kind needs before it has a model worth the name.
IDLE = Model("idle", HERE / "idle.py", (), 2, 1, 1)
