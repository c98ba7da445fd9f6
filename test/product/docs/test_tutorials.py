"""Tests that the tutorial of MNIST works as it stands: each of its commands, on data of MNIST's form,
and the losses of the script's own loop."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import shlex
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from product.docs.tutorials import begin, commands, end
from support import chain

PAGE = "mnist.md"
TRAINING, TEST = 256, 128


def write_digits(folder: pathlib.Path) -> None:
    """Files of MNIST's form, so that nothing is fetched."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for name, count in (("train", TRAINING), ("t10k", TEST)):
        labels = torch.arange(count) % 10
        images = torch.randint(100, (count, 28, 28), generator=generator, dtype=torch.uint8)
        for i, label in enumerate(labels):  # a bright row says which digit it is
            images[i, 2 * int(label) + 4] = 255
        for kind, tensor in (("images-idx3", images), ("labels-idx1", labels.to(torch.uint8))):
            head = [0x800 + tensor.dim(), *tensor.shape]
            data = b"".join(number.to_bytes(4, "big") for number in head)
            (raw / f"{name}-{kind}-ubyte").write_bytes(data + tensor.numpy().tobytes())


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """What a reader stands in, with the data already there."""
    write_digits(tmp_path / "data")
    return tmp_path


def rows(folder: pathlib.Path) -> list[dict[str, Any]]:
    lines = (folder / "out" / "mnist" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def of_the_script(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Losses of the script's own loop, on its batches."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(chain.PYTHON / "examples")
    mnist = importlib.import_module("mnist")
    step = mnist.training_step(["--epochs", "1"])
    batches = list(mnist.training_data([]))
    losses = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for data, target in batches:
        step.optimizer.zero_grad()
        loss = F.nll_loss(step.model(data), target)
        loss.backward()
        step.optimizer.step()
        losses.append(loss.item())
    torch.set_num_threads(threads)
    return losses


def test_on_one_rank_it_is_the_script(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (command,) = commands(PAGE, "One rank")
    words = shlex.split(command)
    words[3:3] = ["--run-args=--rng sequential"]
    output = end(begin(words, folder))
    assert "accuracy" in output and (folder / "out" / "mnist" / "report.html").exists()
    assert [row["loss"] for row in rows(folder) if "loss" in row] == of_the_script(
        folder, monkeypatch
    )


def test_on_two_ranks_and_on_two_machines(folder: pathlib.Path) -> None:
    """Two processes of the driver with the number of a machine each stand for two machines."""
    (command,) = commands(PAGE, "Two ranks")
    end(begin(command, folder))
    expected = [row["loss"] for row in rows(folder) if "loss" in row]
    assert len(expected) == TRAINING // 64 // 2
    both = commands(PAGE, "Two machines")
    assert len(both) == 2
    port = chain.free_port()
    machines, processes = [], []
    for number, command in enumerate(both):
        machine = folder / f"machine{number}"
        machine.mkdir()
        os.symlink(folder / "data", machine / "data")
        command = command.replace("HOST", "127.0.0.1").replace("29500", str(port))
        # A rank each, so that both runs have two.
        words = shlex.split(command.replace("--nproc 2", "--nproc 1"))
        processes.append(begin([*words, "--epochs", "1"], machine))
        machines.append(machine)
    for process in processes:
        end(process)
    assert [row["loss"] for row in rows(machines[0]) if "loss" in row] == expected
