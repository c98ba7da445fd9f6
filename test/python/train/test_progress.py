"""Tests that the driver shows a run as its metrics tell it."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import threading
import time
from pathlib import Path

import pytest
from fsdp_mlir.driver.plots import loss_curve, moving_mean
from fsdp_mlir.driver.followers import follow
from fsdp_mlir.driver.progress import Length, Progress, length_of, sample_count
from fsdp_mlir.step.line_fields import STANDARD

ROOT = Path(__file__).resolve().parents[3]
INPUTS = {"inputs": [{"name": "x", "shape": [4, 2], "source": "data"}], "length": {"epochs": 3}}


def shown(rows: list[dict], length: Length, perplexity: bool = False) -> list[str]:
    out = io.StringIO()
    progress = Progress(length, perplexity, out)
    for row in rows:
        progress.update(row)
    progress.close()
    return out.getvalue().splitlines()


def test_length_in_epochs() -> None:
    """Tests that samples that do not fill a batch on every rank do not count."""
    assert length_of(INPUTS, 35, 2) == Length(12, 3, 4)
    assert length_of(INPUTS, 35, 2, epochs=1) == Length(4, 1, 4)
    assert length_of(INPUTS, 35, 2, steps=7) == Length(7, None, 4)
    assert length_of({}, None, 2) == Length()
    # 3 of 4 steps of two ranks have read what 6 of 8 steps of one have: 18 more follow.
    then = {"step": 3, "epoch": 0, "samples_in_epoch": 24}
    assert length_of(INPUTS, 35, 1, then=then) == Length(21, 3, 8)
    assert length_of(INPUTS, 35, 2, then=then) == length_of(INPUTS, 35, 2)
    # Of the 17 samples of a rank the last one is a batch, where there is a program for it.
    program = {
        "variant_of": "step",
        "arguments": [{"name": "x_1", "role": "input", "fqn": "x"}],
        "values": {"x_1": {"shape": [1, 2]}},
    }
    assert length_of({**INPUTS, "programs": {"step_2": program}}, 35, 2) == Length(15, 3, 5)
    # Of four batches an epoch has one step of three, and one is left out.
    assert length_of({**INPUTS, "accumulate": 3}, 35, 2) == Length(3, 3, 1)


def test_a_line_per_epoch_with_the_means() -> None:
    """Tests that an epoch's line has its mean loss, own metrics and rate."""
    rows = [
        {"step": s, "epoch": e, "loss": float(s), "accuracy": s / 10, "samples_per_s": 100.0}
        for s, e in ((1, 1), (2, 1), (3, 2), (4, 2))
    ]
    # Neither what a loader's epoch has nor what one has on other ranks than before is known.
    for steps_per_epoch in (2, None, 3):
        assert shown(rows, Length(None, 2, steps_per_epoch)) == [
            "epoch 1/2  loss 1.5000  accuracy 0.1500  100 samples/s",
            "epoch 2/2  loss 3.5000  accuracy 0.3500  100 samples/s",
        ]


def test_what_every_run_measures_is_no_metric_of_the_step() -> None:
    """Tests that each field that docs/metrics.md lists is known as one of the run's own."""
    page = (ROOT / "docs" / "metrics.md").read_text().split("## `--summary FILE`")[0]
    fields = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert "offload_bytes" in fields
    assert fields <= STANDARD


def test_each_logged_step_has_a_line_where_one_asks() -> None:
    """Tests that an interval of the user's own is not thinned off a terminal."""
    out = io.StringIO()
    progress = Progress(Length(30, None), out=out, each_row=True)
    for step in (10, 20, 30):
        progress.update({"step": step, "loss": 1.0})
    assert [line.split()[1] for line in out.getvalue().splitlines() if "/30" in line] == [
        "10/30",
        "20/30",
        "30/30",
    ]


def test_perplexity_belongs_to_the_epoch_that_ended() -> None:
    """Tests that an evaluation counts whether it has a row of its own or not."""
    rows = [{"step": 1, "loss": 2.0, "eval_loss": 1.0}, {"step": 2, "loss": 1.0}]
    rows += [{"step": 2, "eval_loss": 0.5}]
    first, second = shown(rows, Length(2, 2, 1), perplexity=True)
    assert f"eval_loss 1.0000  perplexity {math.e:.1f}" in first
    assert f"eval_loss 0.5000  perplexity {math.exp(0.5):.1f}" in second


def test_a_run_in_steps_has_ten_lines() -> None:
    """Tests that a run without epochs still shows how it goes."""
    lines = shown([{"step": s, "loss": 1.0} for s in range(1, 101)], Length(100))
    assert len(lines) == 10
    assert lines[0] == "step 10  loss 1.0000"


def test_a_batch_job_is_heard_of_every_half_minute() -> None:
    """Tests that off a terminal long epochs have lines for steps between them."""
    out, now = io.StringIO(), [0.0]
    progress = Progress(Length(12, 2, 6), out=out, clock=lambda: now[0])
    for step in range(1, 13):
        now[0] += 13.0
        row = {"step": step, "loss": 1.0, "lr": 0.1, "samples_per_s": 1234.5}
        progress.update(row)
    progress.close()
    # Step 7 is behind the epoch's line by no more than 13 s.
    step_3, step_6, epoch_1, step_10, epoch_2 = out.getvalue().splitlines()
    assert step_3 == "step 3/12  loss 1.0000  lr 1.00e-01  1,234 samples/s"
    assert step_6.startswith("step 6/12  ") and step_10.startswith("step 10/12  ")
    assert epoch_1.startswith("epoch 1/2  ") and epoch_2.startswith("epoch 2/2  ")


def test_follow_reads_while_the_file_grows(tmp_path: Path) -> None:
    """Tests that half lines, and half characters, wait for their end, and that others are left out."""
    path = tmp_path / "metrics.jsonl"
    done = threading.Event()

    def write() -> None:
        lines = '{"step": 1}\n{"step": 2, "é": 0}\nno\n{"step": 3}\n'.encode()
        with open(path, "wb") as file:
            for part in (lines[:16], lines[16:26], lines[26:]):
                file.write(part)
                file.flush()
                time.sleep(0.01)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    rows = list(follow(path, lambda: not done.is_set()))
    writer.join()
    assert [row["step"] for row in rows] == [1, 2, 3]


def test_follow_goes_on_where_a_file_becomes_shorter(tmp_path: Path) -> None:
    """Tests that a run which resumes shows each step that it takes again."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n')
    writes = iter([None, '{"step": 1}\n', '{"step": 1}\n{"step": 2, "again": 1}\n'])

    def running() -> bool:
        if (text := next(writes, "")) is not None:
            path.write_text(text) if text else None
        return text != ""

    rows = list(follow(path, running))
    assert [row["step"] for row in rows] == [1, 2, 3, 2] and rows[-1]["again"]


@pytest.mark.quick
def test_follow_goes_on_in_a_file_that_is_longer_at_once(tmp_path: Path) -> None:
    """Tests that nothing is lost of a run that resumes and is soon further than the one before."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n')
    moments = iter("waits ends".split())

    def running() -> bool:
        if (moment := next(moments)) == "ends":
            anew = tmp_path / "anew"
            anew.write_text('{"step": 1}\n{"step": 2, "again": 1}\n{"step": 3}\n')
            anew.replace(path)
        return moment != "ends"

    rows = list(follow(path, running))
    assert [row["step"] for row in rows] == [1, 2, 2, 3] and rows[2]["again"]


def test_follow_without_a_file_ends(tmp_path: Path) -> None:
    """Tests that a run which fails at once does not hang its driver."""
    assert list(follow(tmp_path / "none", lambda: False)) == []


def test_samples_are_read_from_the_header(tmp_path: Path) -> None:
    """Tests that the data itself is not read, and bad files give None."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [35, 2], "data_offsets": [0, 280]}})
    path = tmp_path / "data.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    assert sample_count(path) == 35
    path.write_bytes(b"short")
    assert sample_count(path) is None
    assert sample_count(tmp_path / "none") is None


def test_loss_curve_is_a_picture(tmp_path: Path) -> None:
    """Tests that the curve is drawn, and not where there is no loss."""
    rows = [{"step": s, "loss": 1 / s} for s in range(1, 200)] + [{"step": 199, "eval_loss": 0.5}]
    assert loss_curve(rows, tmp_path / "loss.png", "a run")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert not loss_curve([], tmp_path / "none.png", "no run")
    assert not (tmp_path / "none.png").exists()


def test_moving_mean() -> None:
    """Tests that the mean covers what there is at the start."""
    assert moving_mean((2.0, 4.0, 6.0), 2) == [2.0, 3.0, 5.0]
