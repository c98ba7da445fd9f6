"""The compiler's and the runtime's options that may change no number, and random
combinations of them over the models of test/compiler/options/step.py."""

from __future__ import annotations

import dataclasses
import pathlib
import random

from support import chain, step_files

STEP_FILE = step_files.SMALL
RANKS = (2, 3, 4)

# The models, and the ways to cut each into units (a number: of so many bytes).
UNITS = {
    "gpt": ("auto", "class:Block", "class:Linear", "blocks[.][0-9]+[.].*", "3000"),
    "mlp": ("auto", "class:FromZero", "200"),
    "resnet": ("auto", "class:Residual", "class:BatchNorm2d", "1000"),
    "tied": ("auto", "class:Block", "class:LayerNorm", "2000"),
}
MODELS = tuple(UNITS)
# One for the model whose weights are then its gradients.
STEPS = {"gpt": 3, "mlp": 1, "resnet": 3, "tied": 3}

# What else an option can be. The first value is that of the plainest way, which
# all others are compared with. A new value is one more entry.
PIPELINE = {
    "shard-layout": ("dim0", "flat"),
    "reshard-after-forward": ("auto", "true", "false", "NEIGHBOURS"),
    "remat": ("none", "selective", "full"),
    "schedule": ("naive", "fsdp2", "overlap"),
    "prefetch-forward": ("auto", "0", "1", "3"),
    "prefetch-backward": ("auto", "0", "1", "3"),
    "memory-budget-mib": ("", "1"),
    "cluster": ("local", "h100x8"),
    "bucket-cap-mib": ("none", "auto", "0.001", "0.01"),
    "streams": ("1", "3"),
    "algorithm": ("naive", "best"),
    "offload": ("none", "params", "optimizer", "all"),
}
# Options of one layout only.
OF_LAYOUT = {"dim0": {}, "flat": {"gather": ("copy", "map")}}
RUN = {
    "--comm": ("gloo", "shm"),
    "--host-streams": ("inline", "threads"),
    # Slow enough that a read which does not wait comes too early.
    "--throttle": ("", "0.01,200"),
}


@dataclasses.dataclass(frozen=True)
class Combination:
    """One way to compile a model and to run it."""

    model: str
    ranks: int
    threads: bool
    pipeline: tuple[tuple[str, str], ...]
    run: tuple[tuple[str, str], ...]

    @property
    def passes(self) -> str:
        given = [f"{key}={value}" for key, value in self.pipeline if value]
        # Half of the ranks, or all three.
        neighbours = str(self.ranks if self.ranks % 2 else self.ranks // 2)
        return " ".join([f"mesh={self.ranks}", *given]).replace("NEIGHBOURS", neighbours)

    @property
    def flags(self) -> list[str]:
        return [word for pair in self.run if pair[1] for word in pair]

    def __str__(self) -> str:
        kind = "threads" if self.threads else "processes"
        return " ".join([self.model, self.passes, *self.flags, kind])


def reference(model: str, ranks: int) -> Combination:
    """The plainest way: one collective after the other, parameter by parameter,
    every value in bytes of its own."""
    plainest = {key: values[0] for key, values in PIPELINE.items()}
    run = {key: values[0] for key, values in RUN.items()}
    return Combination(model, ranks, True, tuple(plainest.items()), tuple(run.items()))


def generate(seed: int) -> Combination:
    """The same combination for the same seed, on any machine. Few references are
    enough for seeds that are near each other."""
    chosen = random.Random(seed)
    model = MODELS[seed % len(MODELS)]
    pipeline = {key: chosen.choice(values) for key, values in PIPELINE.items()}
    pipeline["units"] = chosen.choice(UNITS[model])
    for key, values in OF_LAYOUT[pipeline["shard-layout"]].items():
        pipeline[key] = chosen.choice(values)
    run = {key: chosen.choice(values) for key, values in RUN.items()}
    return Combination(
        model,
        RANKS[(seed + seed // 24) % len(MODELS) % len(RANKS)],
        chosen.random() < 0.7,
        tuple(pipeline.items()),
        tuple(run.items()),
    )


class Archives:
    """Exports each model once."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def lower(
        self, model: str, pipeline: str, folder: pathlib.Path, flags: str = ""
    ) -> chain.Compiled:
        """Into `folder`, whose files are overwritten; `flags` are more of the step file's."""
        archive = self.folder / f"{model}{flags.replace(' ', '')}.pt"
        if not archive.exists():
            chain.export(STEP_FILE, archive, ["--model", model, *flags.split()])
        return chain.lower(STEP_FILE, archive, folder, pipeline=pipeline)
