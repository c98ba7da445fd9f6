"""Tests that the tutorials of pytorch/examples' scripts work as they stand: their commands, on data
of the original's form, and the losses of the original's own loop."""

from __future__ import annotations

import functools
import importlib
import pathlib
import pickle
import re
import shlex
from types import ModuleType
from typing import Any, Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import fsdp_mlir
from product.docs.tutorials import TUTORIALS, begin, commands, end
from support import chain

EXAMPLES = chain.PYTHON / "examples"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module(name)


def flags(command: str) -> list[str]:
    """Those behind the script's name."""
    return shlex.split(command.partition(".py")[2])


def draw_as_eager(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a script that runs here draw all random numbers from one stream."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr(
        fsdp_mlir, "compile", functools.partial(fsdp_mlir.compile, rng="sequential")
    )


def printed(pattern: str, output: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, output)]


def gradients_of_ranks(
    model: nn.Module, losses: Callable[[], Iterator[torch.Tensor]]
) -> list[float]:
    """Leaves the mean of the ranks' gradients, as sharded ranks have it; their losses."""
    model.zero_grad()
    values = []
    for loss in losses():
        loss.backward()
        values.append(loss.item())
    for parameter in model.parameters():
        parameter.grad /= len(values)
    return values


@pytest.mark.quick
def test_what_pages_add_is_what_the_examples_have() -> None:
    """A page shows a diff of the original, and counts all its lines; each that it adds stands in the example."""
    for page, name in (
        ("vision_transformer.md", "vision_transformer"),
        ("word_language_model.md", "word_language_model"),
        ("fsdp2.md", "fsdp2_loop"),
    ):
        text = (TUTORIALS / page).read_text()
        diff = "".join(re.findall(r"^```diff\n(.*?)^```", text, re.M | re.S)).splitlines()
        added = [line[1:].strip() for line in diff if line.startswith("+")]
        counted = re.findall(r"(\d+) go and (\d+) come", text)
        assert sum(int(come) for _, come in counted) == len(added)
        lines = {line.strip() for line in (EXAMPLES / f"{name}.py").read_text().splitlines()}
        assert [line for line in added if line not in lines] == []


# The Vision Transformer

IMAGES, TEST_IMAGES = 5 * 8, 16
SMALL_VIT = "--latent-size 24 --num-encoders 2 --patch-size 8 --epochs 2".split()


def write_pictures(folder: pathlib.Path) -> None:
    """Files of CIFAR-10's form. What they are is not looked at by their digest."""
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(0)
    for name, count in [(f"data_batch_{i}", IMAGES // 5) for i in range(1, 6)] + [
        ("test_batch", TEST_IMAGES)
    ]:
        labels = np.arange(count) % 10
        images = numbers.integers(100, size=(count, 3, 32, 32), dtype=np.uint8)
        for image, label in zip(images, labels):  # bright rows say which class it is
            image[:, 3 * label : 3 * label + 2] = 255
        batch = {"data": images.reshape(count, -1), "labels": labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))


@pytest.fixture
def pictures(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    write_pictures(tmp_path / "dataset" / "cifar-10-batches-py")
    monkeypatch.chdir(tmp_path)
    # torchvision knows the digests of the real files; ranks that are processes are told here.
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "if 'RANK' in os.environ:\n"
        "    from torchvision.datasets import cifar\n"
        "    cifar.check_integrity = lambda *_: True\n"
    )
    return tmp_path


def loader(data: Dataset, batch: int, rank: int, ranks: int) -> DataLoader:
    sampler = DistributedSampler(data, ranks, rank, drop_last=True)
    return DataLoader(data, batch, sampler=sampler, drop_last=True)


def vit_of_the_script(vit: ModuleType, argv: list[str], ranks: int) -> tuple[float, float]:
    """The best epoch's losses of the original's loop, where each step's gradient is the mean over
    so many ranks."""
    args = vit.arguments(argv)
    model, optimizer = vit.network(args)
    criterion = nn.CrossEntropyLoss()
    training, evaluation = (
        [loader(vit.pictures(args, train), args.batch_size, r, ranks) for r in range(ranks)]
        for train in (True, False)
    )
    evaluated = list(zip(*evaluation))
    best = np.inf, np.inf
    torch.manual_seed(0)  # the step's
    for epoch in range(args.epochs):
        for each in training:
            each.sampler.set_epoch(epoch)
        with torch.random.fork_rng():  # a loader draws a seed for its workers
            steps = list(zip(*training))
        total = 0.0
        model.train()
        for step in steps:
            loss = gradients_of_ranks(model, lambda: (criterion(model(x), y) for x, y in step))
            optimizer.step()
            total += sum(loss) / ranks
        model.eval()
        with torch.no_grad():
            valid = [criterion(model(x), y).item() for step in evaluated for x, y in step]
        losses = sum(valid) / len(valid), total / len(steps)
        best = min(best, losses)
    return best[1], best[0]


VIT_LOSSES = r"(?:Training|Valid) Loss : (\S+)"


def test_a_vision_transformer_on_one_rank(
    pictures: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's command, with dropout: the original's losses, bit for bit."""
    vit = load("vision_transformer", monkeypatch)
    draw_as_eager(pictures, monkeypatch)
    (command,) = commands("vision_transformer.md", "One rank")
    argv = [*flags(command), *SMALL_VIT]
    vit.main(argv)
    assert printed(VIT_LOSSES, capsys.readouterr().out) == list(vit_of_the_script(vit, argv, 1))
    assert (pictures / "best-weights.safetensors").is_file()


def test_a_vision_transformer_on_two_ranks(
    pictures: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout, whose numbers are each rank's own."""
    vit = load("vision_transformer", monkeypatch)
    (command,) = commands("vision_transformer.md", "Two ranks")
    more = [*SMALL_VIT, "--dropout", "0"]
    path = f"{pictures}:{chain.PYTHON}"
    output = end(begin([*shlex.split(command), *more], pictures, PYTHONPATH=path))
    expected = vit_of_the_script(vit, [*flags(command), *more], 2)
    assert printed(VIT_LOSSES, output) == pytest.approx(expected, rel=1e-6)


# The word language model

SMALL_WORDS = "--emsize 8 --nhid 8 --bptt 6 --epochs 3".split()
COLUMNS = 4


@pytest.fixture
def text(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """WikiText-2's files, with few words. Their lengths leave batches of two lengths."""
    folder = tmp_path / "data" / "wikitext-2"
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(0)
    for name, count in (("train", 33), ("valid", 13), ("test", 15)):
        words = [f"w{number}" for number in numbers.integers(20, size=COLUMNS * count)]
        lines = [" ".join(words[i : i + 10]) for i in range(0, len(words), 11)]
        (folder / f"{name}.txt").write_text("".join(f" {line} \n" for line in lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of_the_script(lm: ModuleType, argv: list[str]) -> list[float]:
    """The losses of the validations and of the test, by the original's loop. Ranks have some of
    the columns each."""
    args = lm.arguments(argv)
    splits, ntokens = lm.corpus(args.data)
    model, optimizer = lm.network(args, ntokens)
    criterion, is_rnn = nn.NLLLoss(), args.model != "Transformer"

    def forward(data: torch.Tensor, hidden: Any) -> tuple[torch.Tensor, Any]:
        if not is_rnn:
            return model(data), hidden
        output, hidden = model.rnn(model.drop(model.encoder(data)), hidden)
        decoded = model.decoder(model.drop(output)).view(-1, ntokens)
        return F.log_softmax(decoded, dim=1), hidden

    def batches(split: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        rows = len(split) // COLUMNS
        source = split[: rows * COLUMNS].view(COLUMNS, -1).t().contiguous()
        for i in range(0, rows - 1, args.bptt):
            end = min(i + args.bptt, rows - 1)
            yield source[i:end], source[i + 1 : end + 1].view(-1)

    def first() -> Any:
        zeros = torch.zeros(args.nlayers, COLUMNS, args.nhid)
        return (zeros, zeros) if args.model == "LSTM" else zeros

    @torch.no_grad()
    def evaluate(split: torch.Tensor) -> float:
        model.eval()
        hidden, total, rows = first(), 0.0, 0
        for data, targets in batches(split):
            output, hidden = forward(data, hidden)
            total += len(data) * criterion(output, targets).item()
            rows += len(data)
        return total / rows

    found: list[float] = []
    best, lr = model.state_dict(), args.lr
    torch.manual_seed(args.seed)
    for _ in range(args.epochs):
        model.train()
        hidden = first()
        for data, targets in batches(splits[0]):
            model.zero_grad()
            hidden = tuple(h.detach() for h in hidden) if is_rnn else hidden
            output, hidden = forward(data, hidden)
            criterion(output, targets).backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            for parameter in model.parameters():
                parameter.data.add_(parameter.grad, alpha=-lr)
        value = evaluate(splits[1])
        if not found or value < min(found):
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        else:
            lr /= 4.0
        found.append(value)
    model.load_state_dict(best)
    return [*found, evaluate(splits[2])]


WORD_LOSSES = r"(?:valid|test) loss (\S+)"


@pytest.mark.parametrize("model", ["LSTM", "Transformer"])
def test_a_word_language_model_on_one_rank(
    text: pathlib.Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page's commands, with dropout: the original's losses, bit for bit where no gradient is
    too long, since the sum of their squares is taken in another order."""
    lm = load("word_language_model", monkeypatch)
    draw_as_eager(text, monkeypatch)
    command = dict(zip(["LSTM", "Transformer"], commands("word_language_model.md", "One rank")))[
        model
    ]
    assert ("Transformer" in command) == (model == "Transformer")
    argv = [*flags(command), *SMALL_WORDS, "--batch_size", str(COLUMNS), "--clip", "1e9"]
    argv += ["--lr", "2"]
    lm.main(argv)
    # On a CPU, eager has a kernel of oneDNN's for an LSTM, whose last bits are others.
    with torch.backends.mkldnn.flags(enabled=False):
        expected = words_of_the_script(lm, argv)
    assert printed(WORD_LOSSES, capsys.readouterr().out) == expected
    if model == "Transformer":
        assert expected[1] > expected[0], "the rate is not lowered"


def test_a_word_language_model_on_two_ranks(
    text: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout, whose numbers are each rank's own; with gradients that are clipped."""
    lm = load("word_language_model", monkeypatch)
    (command,) = commands("word_language_model.md", "Two ranks")
    more = [*SMALL_WORDS, "--dropout", "0", "--batch_size", str(COLUMNS // 2)]
    output = end(begin([*shlex.split(command), *more], text))
    expected = words_of_the_script(lm, [*flags(command), *more])
    assert printed(WORD_LOSSES, output) == pytest.approx(expected, rel=1e-5)


# FSDP2's example

FEW_LAYERS = ["--layers", "3"]


def fsdp2_of_the_script(loop: ModuleType) -> list[float]:
    """The losses of two times ten steps, without sharding; the second run draws the same batches."""
    torch.manual_seed(0)
    model, optimizer = loop.build(loop.arguments(FEW_LAYERS), 1024, 64)
    drawn, losses = torch.get_rng_state(), []
    for _ in range(2):
        torch.set_rng_state(drawn)
        for _ in range(10):
            loss = model(torch.randint(0, 1024, (32, 64))).sum()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses


FSDP2_LOSSES = r"step \d+ loss (\S+)"


def test_fsdp2s_example_goes_on_where_it_was(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's commands, the second of which goes on with two ranks; up to the rounding of the
    norm that gradients are clipped to."""
    loop = load("fsdp2_loop", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (first,), (second,) = (commands("fsdp2.md", section) for section in ("One rank", "Two ranks"))
    loop.main([*flags(first), *FEW_LAYERS])
    output = capsys.readouterr().out + end(begin([*shlex.split(second), *FEW_LAYERS], tmp_path))
    assert "step 20 " in output
    assert printed(FSDP2_LOSSES, output) == pytest.approx(fsdp2_of_the_script(loop), rel=1e-6)


def test_fsdp2s_example_with_its_other_flags(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = load("fsdp2_loop", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for flag in ("--dcp-api", "--dcp-api", "--mixed-precision"):
        loop.main([flag, *FEW_LAYERS])
    losses, expected = printed(FSDP2_LOSSES, capsys.readouterr().out), fsdp2_of_the_script(loop)
    assert losses[:20] == pytest.approx(expected, rel=1e-6)
    # numerics/parity/test_mixed_precision.py holds its bits; here it is that the flag does something.
    assert losses[20:] == pytest.approx(expected[:10], rel=0.05)
    assert losses[20:] != pytest.approx(expected[:10], rel=1e-6)
