"""Tests that the tutorials of language models work as they stand: each of their commands, and the
losses of the scripts that they port."""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import random
import re
import shlex
from types import ModuleType

import numpy
import pytest
import torch

from support import chain

from .scripts import commands, run
from .test_tutorials import begin, end

EXAMPLES = chain.ROOT / "python" / "examples"
TUTORIALS = chain.ROOT / "docs" / "tutorials"
WORDS = "the of in a river city king album season team north wrote built won . , ; = 1984".split()


def write_text(path: pathlib.Path, lines: int) -> None:
    """Lines as WikiText's: headings, paragraphs and empty lines."""
    draw = random.Random(lines)
    with path.open("w") as file:
        for number in range(lines):
            count = draw.randrange(8, 24)
            paragraph = " " + " ".join(draw.choice(WORDS) for _ in range(count)) + " \n"
            file.write(paragraph if number % 4 else f" = Article {number} = \n \n")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """What a reader stands in, with the data already there."""
    (tmp_path / "python").symlink_to(chain.PYTHON)
    for name, lines in (("train", 400), ("valid", 60)):
        write_text(tmp_path / f"wiki.{name}.txt", lines)
    (tmp_path / "data" / "shakespeare_char").mkdir(parents=True)
    for name, count in (("train", 4000), ("val", 1000)):
        draws = numpy.random.default_rng(count).integers(2, size=count)
        tokens = (numpy.cumsum(draws) % 61).astype("uint16")
        tokens.tofile(tmp_path / "data" / "shakespeare_char" / f"{name}.bin")
    for module in ("corpus", "llama3", "gpt_wikitext2"):  # what scripts import that lie here
        (tmp_path / f"{module}.py").symlink_to(EXAMPLES / f"{module}.py")
    return tmp_path


def without_changes(port: str, page: str) -> str:
    """A script of ours as it was before the changes that its page shows as a diff."""
    script = (EXAMPLES / port).read_text()
    (diff,) = re.findall(r"^```diff\n(.*?)^```", (TUTORIALS / page).read_text(), re.M | re.S)
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert script.count(after) == 1, after
        script = script.replace(after, before)
    return script


SMALL = "n_embd=32,n_layer=1,n_head=4,resid_pdrop=0,embd_pdrop=0,attn_pdrop=0"
# Flags of the test's own: a small model, and a line for each step.
CLM = (
    "--block_size 32 --vocab_size 300 --per_device_train_batch_size 4 --warmup_steps 3 "
    f"--max_steps 12 --config_overrides {SMALL} --per_device_eval_batch_size 4 "
    "--logging_steps 1 --report_to none --disable_tqdm True"
).split()


@pytest.mark.parametrize("section, program", (("One rank", "python"), ("Two ranks", "torchrun")))
def test_run_clm_is_the_trainers_own(section: str, program: str, folder: pathlib.Path) -> None:
    """With the Trainer of transformers, which the page's diff takes away, on as many ranks. Norms of
    all gradients and means over ranks are sums in another order; without them it is bit for bit.
    """
    alone = program == "python"
    flags = [*CLM, "--max_grad_norm", "0" if alone else "1"]
    (command,) = commands("run_clm.md", section, program)
    (folder / "before.py").write_text(without_changes("run_clm.py", "run_clm.md"))

    def trained(command: str, out: str) -> list[dict[str, float]]:
        run(command, folder, *flags, "--output_dir", out)
        assert (folder / out / "model.safetensors").exists()
        names = ("loss", "learning_rate") if alone else ("loss", "learning_rate", "grad_norm")
        history = json.loads((folder / out / "trainer_state.json").read_text())["log_history"]
        rows = [{name: row[name] for name in names} for row in history if "loss" in row]
        results = json.loads((folder / out / "eval_results.json").read_text())
        return [*rows, {name: results[f"eval_{name}"] for name in ("loss", "accuracy")}]

    ours = trained(command, "planned")
    theirs = trained(command.replace("python/examples/run_clm.py", "before.py"), "eager")
    assert len(ours) == 13 and ours[0]["loss"] > ours[-1]["loss"] + 0.1
    for our, their in zip(ours, theirs, strict=True):
        assert our == (their if alone else pytest.approx(their, rel=1e-6))


# A small model in torchtitan's names.
TITAN = (
    "--model.flavor debug --training.dataset_path wiki.train.txt --training.seq_len 32 "
    "--training.local_batch_size 2 --training.steps 6"
).split()


@pytest.mark.parametrize("section, ranks", (("One rank", 1), ("Two ranks", 2)))
def test_torchtitans_llama_is_fsdp2s(section: str, ranks: int, folder: pathlib.Path) -> None:
    """With the loop that the page's diff takes away: of FSDP2, in bfloat16, on as many ranks."""
    page = (TUTORIALS / "torchtitan.md").read_text()
    (settings,) = re.findall(r"^```toml\n(.*?)^```", page, re.M | re.S)
    (folder / "debug_model.toml").write_text(settings)
    (folder / "before.py").write_text(without_changes("torchtitan_llama.py", "torchtitan.md"))
    (command,) = commands("torchtitan.md", section, "python" if ranks == 1 else "torchrun")
    script = command.partition("python/examples/torchtitan_llama.py")[2]

    def trained(command: str) -> list[list[float]]:
        printed = run(command, folder, *TITAN)
        return [
            [float(number) for number in row]
            for row in re.findall(r"^step: \d+ loss: (\S+) grad_norm: (\S+)$", printed, re.M)
        ]

    ours = trained(command)
    theirs = trained(f"torchrun --nproc-per-node {ranks} before.py{script}")
    assert len(ours) == 6 and ours[0][0] > ours[-1][0] + 0.1
    for our, their in zip(ours, theirs, strict=True):
        assert our == pytest.approx(their, rel=1e-6)
    assert (folder / "model.safetensors").exists()


# A small model in nanoGPT's names.
NANO = (
    "--eval_iters=2 --eval_interval=3 --block_size=16 --batch_size=4 --n_layer=1 --n_embd=32 "
    "--max_iters=7 --lr_decay_iters=7 --warmup_iters=2 --learning_rate=1e-2"
).split()


@pytest.mark.parametrize("section, program", (("One rank", "python"), ("Two ranks", "torchrun")))
def test_nanogpt_with_its_loop(section: str, program: str, folder: pathlib.Path) -> None:
    """Its losses and evaluations are those of the loop that the page's diff takes away, on two ranks
    by DDP; bit for bit where no norm of all gradients and no mean over ranks is a sum."""
    (folder / "before.py").write_text(without_changes("nanogpt_train.py", "nanogpt.md"))
    (command,) = commands("nanogpt.md", section, program)
    alone = program == "python"

    def trained(command: str) -> list[list[float]]:
        printed = run(command, folder, *NANO, *(["--grad_clip=0"] if alone else []))
        rows = re.findall(r"^(?:iter|step) \d+: .*$", printed, re.M)
        return [[float(number) for number in re.findall(r"loss (\S+?),?(?: |$)", r)] for r in rows]

    ours = trained(command)
    theirs = trained(command.replace("python/examples/nanogpt_train.py", "before.py"))
    assert len(ours) == 8 + 3 and ours[1][0] > ours[-1][0] + 0.1
    assert (folder / "out" / "char" / "ckpt.safetensors").exists()
    for our, their in zip(ours, theirs, strict=True):
        assert our == (their if alone else pytest.approx(their, rel=1e-6))


def nanogpts_losses(nanogpt: ModuleType, args: argparse.Namespace, ranks: int) -> list[float]:
    """Means over ranks, each with batches of its own, of nanoGPT's loop without its evaluation."""
    batches = []
    for rank in reversed(range(ranks)):
        torch.manual_seed(1337 + rank)
        model = nanogpt.GPT(args)
        batches.append([nanogpt.get_batch(args, "train") for _ in range(args.max_iters + 1)])
    optimizer = model.configure_optimizers(args)  # of rank 0's model
    losses = []
    for iter_num, batch in enumerate(zip(*batches)):
        for param_group in optimizer.param_groups:
            param_group["lr"] = nanogpt.get_lr(args, iter_num)
        loss = torch.stack([model(X, Y)[1] for X, Y in batch]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("ranks", (1, 2))
def test_nanogpt_without_its_loop(
    ranks: int, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(chain.PYTHON / "examples")
    nanogpt = importlib.import_module("nanogpt_train")
    words = shlex.split(commands("nanogpt.md", "Without the loop", "python -m")[ranks - 1])
    assert ("--nproc" in words) == (ranks == 2)
    end(begin([*words[:3], "--no-report", *words[3:], *NANO], folder))
    lines = (folder / "out" / "nanogpt_train" / "metrics.jsonl").read_text().splitlines()
    losses = [row["loss"] for row in map(json.loads, lines) if "loss" in row]
    args = nanogpt.parse(["--dataset=data/shakespeare_char", *NANO])
    assert losses == pytest.approx(nanogpts_losses(nanogpt, args, ranks), rel=1e-6)
