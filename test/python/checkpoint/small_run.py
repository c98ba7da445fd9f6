"""A model with all kinds of state, and runs of it that leave checkpoints."""

from __future__ import annotations

import contextlib
import io
import pathlib
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Shard

from fsdp_mlir import TrainingStep, fully_shard
from fsdp_mlir.checkpoint.command_line import main
from fsdp_mlir.checkpoint.folder import MANIFEST, loader_name
from fsdp_mlir.checkpoint.manifest import Loader, hash_of
from fsdp_mlir.checkpoint.manifest_text import read_manifest, write_manifest
from fsdp_mlir.checkpoint.reader import open_checkpoint
from support import chain, reference

BEGIN, END = 10, 20
STEPS, INTERVAL, BATCH, SAMPLES = 12, 5, 4, 26


class Model(nn.Module):
    """A tied weight, statistics of each rank, a buffer that no state_dict() has, an odd size."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.mix = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 6), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embedding(x)
        return self.head(h + self.norm(self.mix(h)) * self.scale)


def data() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return {key: torch.randint(11, (SAMPLES,), generator=generator) for key in "xy"}


def new_model() -> Model:
    torch.manual_seed(0)
    return Model()


def new_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Two groups with options of their own, in another order than the model's."""
    named = list(model.named_parameters())
    vectors = {"params": [p for n, p in named if p.dim() == 1], "weight_decay": 0.0, "lr": 3e-3}
    matrices = {"params": [p for n, p in named if p.dim() > 1], "betas": (0.8, 0.99)}
    return torch.optim.AdamW([vectors, matrices], lr=0.01)


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y)


def training_step(argv: list[str]) -> TrainingStep:
    """`--columns`: a weight is cut by its columns."""
    model = new_model()
    if "--columns" in argv:
        model = fully_shard(
            model, shard_placement_fn=lambda p: Shard(1) if p is model.mix.weight else None
        )
    samples = data()
    return TrainingStep(
        model=model,
        loss=loss_of,
        optimizer=new_optimizer(model),
        inputs={key: value[:BATCH] for key, value in samples.items()},
        data=samples,
        epochs=8,
    )


def command(*arguments: Any) -> tuple[int, str, str]:
    """Status, output and errors of `python -m fsdp_mlir.checkpoint`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main([str(argument) for argument in arguments])
    return status, out.getvalue(), err.getvalue()


def refusal(*arguments: Any) -> str:
    """The one line in which a command says what is wrong."""
    status, out, err = command(*arguments)
    assert (status, out) == (1, "")
    assert err.startswith("error: ") and err.count("\n") == 1, err
    return err.removeprefix("error: ").strip()


def add_loader(path: pathlib.Path, rank: int, state: bytes) -> None:
    """Puts the state of a rank's loader into a checkpoint."""
    manifest = read_manifest((path / MANIFEST).read_bytes(), MANIFEST)
    loaders = (*manifest.loaders, Loader(rank, len(state), hash_of(state)))
    (path / loader_name(rank)).write_bytes(state)
    (path / MANIFEST).write_bytes(write_manifest(replace(manifest, loaders=loaders)))


def damage(path: pathlib.Path, name: str) -> None:
    """Flips a bit of a tensor in the second file of a checkpoint."""
    with open_checkpoint(path) as checkpoint:
        tensor = checkpoint.manifest.find(name)
        begin = checkpoint.file(1).begin_of(tensor, tensor.chunks[1])
    shard = path / "rank-00001.safetensors"
    text = bytearray(shard.read_bytes())
    text[begin + 5] ^= 1
    shard.write_bytes(text)


class SmallRun:
    """An archive, its plans by number of ranks, and the checkpoints of a run of two."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.archive = folder / "step.pt"
        compiled = chain.compile_step(training_step, folder, ["--columns"], "mesh=2")
        self.compiled = {2: compiled}
        self.checkpoints = folder / "checkpoints"
        flags = ("--checkpoint-dir", self.checkpoints, "--checkpoint-interval", INTERVAL)
        self.result = self.train(2, STEPS, *flags)

    @property
    def weights(self) -> pathlib.Path:
        """What an export says of the first values."""
        return self.archive.with_suffix(".safetensors")

    def train(self, ranks: int, steps: int, *flags: Any) -> chain.Result:
        if ranks not in self.compiled:
            where = self.folder / str(ranks)
            source = self.compiled[2].step_file
            self.compiled[ranks] = chain.lower(
                source, self.archive, where, ["--columns"], f"mesh={ranks}"
            )
        return chain.run_plan(self.compiled[ranks], ranks, steps=steps, extra=flags)

    def at(self, step: int) -> pathlib.Path:
        return self.checkpoints / f"step-{step:08d}"


class Single:
    """A run of one rank until step END, with a checkpoint at step BEGIN."""

    def __init__(self, run: SmallRun, folder: pathlib.Path) -> None:
        self.folder = folder
        flags = ("--checkpoint-dir", folder, "--checkpoint-interval", BEGIN)
        self.result = run.train(1, END, *flags)
        self.losses = self.result.losses

    def at(self, step: int) -> pathlib.Path:
        return self.folder / f"step-{step:08d}"


def contents(path: pathlib.Path) -> dict[tuple[str, int], bytes]:
    """The bytes of each tensor of a checkpoint, by name and rank."""
    with open_checkpoint(path) as checkpoint:
        return {
            (tensor.name, rank): checkpoint.read(tensor, rank).tobytes()
            for tensor in checkpoint.manifest.tensors
            for rank in tensor.ranks()
        }


def eager_losses(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    begin: int,
    end: int,
    rank: int = 0,
    ranks: int = 1,
) -> list[float]:
    """One rank's losses in PyTorch's own steps from step `begin` (from 0) to `end`."""
    feed = reference.batches(training_step([]), rank, ranks)
    losses = []
    for number, batch in zip(range(end), feed):
        if number >= begin:
            optimizer.zero_grad()
            loss = loss_of(model, **batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
