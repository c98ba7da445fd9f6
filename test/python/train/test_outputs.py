"""Tests what the driver tells of a run, to programs and services, and what it does behind it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from fsdp_mlir.driver import stages
from fsdp_mlir.driver.flags import parse
from fsdp_mlir.driver.run_command import trace_file
from fsdp_mlir.driver.step_hooks import after_training
from fsdp_mlir.train import main
from support.driver_tree import Tree


def test_json_is_a_line_per_event(tree: Tree, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests that every line is an object, from the first stage to the files at the end."""
    assert tree.train("--log-format", "json") == 0
    out = capfd.readouterr().out.splitlines()
    # What the step file's hook prints is its own.
    events = [json.loads(line) for line in out if not line.startswith("trained ")]
    kinds = [event["event"] for event in events]
    assert [e["stage"] for e in events if e["event"] == "stage"] == [
        "export",
        "import",
        "shard",
        "plan",
        "done",
    ]
    assert kinds.count("step") == 4 and kinds.count("run") == 1 and kinds[-1] == "files"
    assert {"event": "note", "text": "flags"} in events
    assert [e["loss"] for e in events if e["event"] == "step"] == [1.0, 0.5, 1 / 3, 0.25]


def test_output_that_nobody_takes_ends_no_run(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As of a full disk below a log. A note says so once; commands alone are an error."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError):
            tree.train("--dry-run")
        assert tree.train() == 0
    said = capfd.readouterr().err
    assert said.count("nothing more is printed, and the run goes on: No space left on device") == 1
    assert (tree.folder / "out" / "trained.safetensors").exists()


def test_the_run_writes_event_files(tree: Tree) -> None:
    for flag, folder in (
        ("--tensorboard", tree.folder / "out" / "tensorboard"),
        ("--tensorboard=events", Path("events")),
    ):
        assert tree.train("--peak-flops", "1e12", flag) == 0
        run = tree.log()[-1]
        assert Path(run[run.index("--tensorboard") + 1]) == folder
        assert main(["--config", str(tree.folder / "out" / "run.toml")]) == 0
        assert tree.log()[-1] == run, "the settings are the same run again"
    assert float(run[run.index("--peak-flops") + 1]) == 1e12


class Wandb(types.ModuleType):
    """Stands in for the package: keeps what is logged, and fails from a step on."""

    def __init__(self, fails_from: int = 99) -> None:
        super().__init__("wandb")
        self.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
        self.fails_from = fails_from
        self.step, self.rows, self.ended = 0, [], 0

    def init(self, **given: Any) -> Wandb:
        self.given = given
        return self

    def log(self, values: dict[str, float], step: int) -> None:
        if step >= self.fails_from:
            raise OSError("no network")
        self.step = step
        self.rows.append((step, values))

    def finish(self) -> None:
        self.ended += 1


def test_metrics_reach_wandb(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", service := Wandb())
    assert tree.train("--wandb", "--steps", "4") == 0
    assert service.given["name"] == "step" and service.given["config"]["steps"] == "4"
    assert [step for step, _ in service.rows] == [1, 2, 3, 4]
    assert service.rows[1][1] == {"loss": 0.5, "tokens_per_s": 7.0, "eval_loss": 1.0}
    assert service.rows[2][1]["unit_grad_norm/root"] == 2.0
    assert service.ended == 1
    # The run goes on in the same one, from where it was; and without the network.
    monkeypatch.setitem(sys.modules, "wandb", again := Wandb(fails_from=4))
    again.step = 3
    capfd.readouterr()
    assert tree.train("--wandb", "--resume", "auto") == 0
    assert (again.given["id"], again.given["resume"]) == (service.given["id"], "allow")
    assert [step for step, _ in again.rows] == [3]
    assert capfd.readouterr().out.count("metrics do not reach wandb: no network") == 1
    monkeypatch.setitem(sys.modules, "wandb", other := Wandb())
    assert tree.train("--wandb") == 0
    assert other.given["id"] != service.given["id"]


def test_wandb_that_is_not_installed_is_an_error(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        tree.train("--wandb")
    assert "error: --wandb needs the package wandb: pip install wandb" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, expected",
    (
        ([], "out/trace.json"),
        (["--nproc", "9"], None),
        (["--no-report"], None),
        (["--no-report", "--trace", "own.json"], "own.json"),
    ),
)
def test_the_report_has_a_trace_of_few_ranks(flags: list[str], expected: str | None) -> None:
    found = trace_file(parse(["--out", "out", *flags, "step.py"]))
    assert found == (None if expected is None else Path(expected))


@pytest.mark.provokes("FSDP-E0808")
def test_what_runs_behind_the_training_may_fail(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("def after_training(argv, weights): raise ValueError('no')\n")
    save_file({"w": torch.zeros(1)}, tmp_path / "weights.safetensors")
    with pytest.raises(stages.StageError, match="after_training of step.py: ValueError: no"):
        after_training(tmp_path / "step.py", [], tmp_path / "weights.safetensors")


def test_a_run_that_resumes_shows_each_step_that_it_takes(
    tree: Tree, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those too of which the run before had a line already."""
    metrics = tree.folder / "out" / "metrics.jsonl"
    metrics.parent.mkdir()
    kept = {"step": 1, "loss": 1.0, "tokens_per_s": 7.0}
    metrics.write_text(json.dumps(kept) + '\n{"step": 2, "loss": 9.0}\n{"step": 3, "loss": 9.0}\n')
    assert tree.train("--steps", "4", "--log-interval", "1", "--resume", "auto") == 0
    shown = re.findall(r"^step (\d)/4 ", capfd.readouterr().out, re.MULTILINE)
    assert shown == ["2", "3", "4"]
