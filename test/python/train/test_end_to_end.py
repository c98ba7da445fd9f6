"""Tests that the examples train under the driver, by the real programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from fsdp_mlir.train import main

EXAMPLES = Path(__file__).resolve().parents[3] / "python" / "examples"


@pytest.fixture
def train(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """The driver as the README calls it, with the cache where it is by default."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*flags: str, example: str, argv: tuple[str, ...] = ()) -> str:
        status = main(["--out", str(tmp_path / "out"), *flags, str(EXAMPLES / example), *argv])
        out, err = capfd.readouterr()
        assert status == 0, err
        return out

    return run


def figures(out: str, name: str) -> list[float]:
    """The values printed for `name`, one for each epoch."""
    lines = [line for line in out.splitlines() if line.startswith("epoch ")]
    return [float(re.search(rf"\b{name} ([0-9.]+)", line).group(1)) for line in lines]


def test_linear_classifier_learns(train, tmp_path: Path) -> None:
    """Tests that two ranks train three epochs, accuracy rises, and results are left."""
    out = train("--nproc", "2", example="linear_classifier.py")
    accuracy, loss = figures(out, "accuracy"), figures(out, "loss")
    assert len(accuracy) == 3
    assert accuracy == sorted(accuracy) and accuracy[-1] > accuracy[0]
    assert loss == sorted(loss, reverse=True)
    rows = [json.loads(line) for line in open(tmp_path / "out" / "metrics.jsonl")]
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, 49))
    trained = load_file(tmp_path / "out" / "trained.safetensors")
    assert {name: value.shape for name, value in trained.items()} == {
        "weight": (10, 128),
        "bias": (10,),
    }
    assert (tmp_path / "out" / "loss.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "report.html").read_text()
    assert re.search(rf"report +{re.escape(str(tmp_path / 'out' / 'report.html'))}$", out, re.M)
    for said in (
        "linear_classifier.py on 2 ranks",
        "measured in step",
        "fsdp-shard-state",
        "nproc",
    ):
        assert said in page

    again = train("--nproc", "2", example="linear_classifier.py")
    assert again.count("(unchanged)") == 4
    assert figures(again, "loss") == loss


def test_simple_model_learns(train) -> None:
    """Tests the example with several parameters on one rank and on three."""
    one = figures(train("--nproc", "1", example="simple_model.py"), "loss")
    three = figures(train("--nproc", "3", example="simple_model.py"), "loss")
    assert one == sorted(one, reverse=True)
    assert three == sorted(three, reverse=True)


def test_gpt_reports_perplexity_and_a_sample(train, tmp_path: Path) -> None:
    """Tests the GPT on a text file: perplexity falls, the model continues a text."""
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"paragraph {i} is about the number {i * i}" for i in range(400)))
    sizes = "--vocab_size 300 --seq_len 16 --layers 2 --width 32 --heads 2 --batch_size 4"
    argv = (*sizes.split(), "--epochs", "2", "--data", str(text), "--sample", "paragraph")
    out = train("--nproc", "2", example="gpt_wikitext2.py", argv=argv)
    perplexity = figures(out, "perplexity")
    assert len(perplexity) == 2 and perplexity[1] < perplexity[0] < 300
    assert "sample: paragraph" in out


def test_options_of_the_run_reach_it(train) -> None:
    """Tests a length in steps, a pipeline option and a flag of fsdp-run."""
    out = train(
        *("--nproc", "2", "--steps", "5", "--pipeline", "reshard-after-forward=true"),
        "--run-args=--poison",
        example="linear_classifier.py",
    )
    assert "2 ranks, 5 steps" in out


def test_a_run_goes_on_after_it_was_cut(train, tmp_path: Path) -> None:
    """Tests that the driver's checkpoints lead to the weights and the rows of a run in one go."""
    flags, out = ("--nproc", "2"), tmp_path / "out"
    train(*flags, example="linear_classifier.py")
    weights, rows = (out / "trained.safetensors").read_bytes(), losses(out)
    train(*flags, "--steps", "20", "--checkpoint-interval", "8", example="linear_classifier.py")
    assert (out / "checkpoints" / "step-00000016").exists()
    train(*flags, "--resume", "auto", example="linear_classifier.py")
    assert (out / "trained.safetensors").read_bytes() == weights
    assert losses(out) == rows


def losses(out: Path) -> list[float]:
    rows = [json.loads(line) for line in open(out / "metrics.jsonl")]
    return [row["loss"] for row in rows if "loss" in row]
